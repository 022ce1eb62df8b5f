#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/patterns.h"

namespace planish::cli {

/// `planish patterns …` and its options. Must outlive the parsing.
class PatternsCommand {
 public:
  PatternsCommand(CLI::App& app, Output& output);
  PatternsCommand(const PatternsCommand&) = delete;
  PatternsCommand& operator=(const PatternsCommand&) = delete;
  /// The exit code, where it was one of its verbs. `config`: planish.toml.
  std::optional<int> run(const std::string& config, const Output& output);

 private:
  CLI::App* import_ = nullptr;
  CLI::App* search_ = nullptr;
  CLI::App* embed_ = nullptr;
  CLI::App* show_ = nullptr;
  CLI::App* list_ = nullptr;
  CLI::App* forget_ = nullptr;
  PatternsVerb importing_, searching_, embedding_, showing_, listing_, forgetting_;
};

}  // namespace planish::cli
