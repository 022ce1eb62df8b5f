#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "llm/config.h"

namespace planish::cli {

/// A command line, as verbs may want to know it beside their own options.
struct CommandLine {
  std::string typed;                  ///< as a person would type it
  llm::ConfigFile config;             ///< planish.toml
  std::vector<std::string> settings;  ///< words that make another command read the same settings
};

/// A verb's options and what to do with them. Made before the command line is parsed, and lives until the program ends:
/// the parser writes into it.
class Command {
 public:
  virtual ~Command() = default;
  /// The exit code, where the command line named this verb.
  virtual std::optional<int> run(const CommandLine& line, const Output& output) = 0;
};

/// Adds the verb to `app`; `output` is filled by its --json and --quiet.
using MakeCommand = std::unique_ptr<Command> (*)(CLI::App& app, Output& output);

/// One a verb. A new verb is a file in this folder and its lines here and in all_commands().
std::unique_ptr<Command> optimize_command(CLI::App& app, Output& output);
std::unique_ptr<Command> verify_command(CLI::App& app, Output& output);
std::unique_ptr<Command> try_command(CLI::App& app, Output& output);
std::unique_ptr<Command> mcp_command(CLI::App& app, Output& output);
std::unique_ptr<Command> export_command(CLI::App& app, Output& output);
std::unique_ptr<Command> suite_command(CLI::App& app, Output& output);
std::unique_ptr<Command> import_command(CLI::App& app, Output& output);
std::unique_ptr<Command> serve_command(CLI::App& app, Output& output);
std::unique_ptr<Command> runs_command(CLI::App& app, Output& output);
std::unique_ptr<Command> show_command(CLI::App& app, Output& output);
std::unique_ptr<Command> report_command(CLI::App& app, Output& output);
std::unique_ptr<Command> rm_command(CLI::App& app, Output& output);
std::unique_ptr<Command> completion_command(CLI::App& app, Output& output);
std::unique_ptr<Command> doctor_command(CLI::App& app, Output& output);
std::unique_ptr<Command> cache_command(CLI::App& app, Output& output);
std::unique_ptr<Command> patterns_command(CLI::App& app, Output& output);
std::unique_ptr<Command> environment_command(CLI::App& app, Output& output);

/// In the order in which --help lists them.
const std::vector<MakeCommand>& all_commands();

}  // namespace planish::cli
