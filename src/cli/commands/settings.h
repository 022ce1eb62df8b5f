#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "llm/config.h"

namespace planish::cli {

/// --config FILE and --no-config: the verbs' settings as TOML, `[optimize] budget = "30s"`. Without either the file is
/// planish.toml of the current folder, else its pyproject.toml where that has [tool.planish], else the user's
/// planish.toml. `words`: the command line, since which file is read is known before it is parsed.
/// Gives what is to be said where neither is given: a pyproject.toml that is not TOML may have settings of ours.
Result<std::string> add_settings(CLI::App& app, const std::vector<std::string>& words);
/// The file that was read, once the command line is parsed; empty with --no-config.
llm::ConfigFile settings_read(const CLI::App& app, const std::vector<std::string>& words);
/// Warnings about tables and keys of that file that no verb reads. Kind `usage` where it is not TOML.
Result<std::vector<std::string>> check_settings(const CLI::App& app, const llm::ConfigFile& file);
/// The words that make another command of this program read the same.
std::vector<std::string> words_of_settings(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace planish::cli
