#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace planish::cli {

/// --config FILE and --no-config: the verbs' settings as TOML, `[optimize] budget = "30s"`. Without either the file is
/// planish.toml of the current folder, else its pyproject.toml where that has [tool.planish], else the user's
/// planish.toml. `words`: the command line, since which file is read is known before it is parsed.
void add_settings(CLI::App& app, const std::vector<std::string>& words);
/// The file that was read, once the command line is parsed; empty with --no-config.
std::string settings_read(const CLI::App& app);

}  // namespace planish::cli
