#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/environment.h"

namespace planish::cli {

/// `planish environment` and its options. Must outlive the parsing.
class EnvironmentCommand {
 public:
  EnvironmentCommand(CLI::App& app, Output& output);
  EnvironmentCommand(const EnvironmentCommand&) = delete;
  EnvironmentCommand& operator=(const EnvironmentCommand&) = delete;
  /// The exit code, where it was this verb.
  std::optional<int> run(const Output& output) const;

 private:
  CLI::App* verb_ = nullptr;
  EnvironmentVerb options_;
};

}  // namespace planish::cli
