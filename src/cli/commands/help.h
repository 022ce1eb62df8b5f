#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

/// How --help reads: groups with a heading, a line that fits a terminal, examples at the end.
namespace planish::cli {

/// The groups that verbs stand in.
namespace group {
inline constexpr const char* optimize = "Optimise and judge";
inline constexpr const char* runs = "Runs and what they found";
inline constexpr const char* many = "Many tasks";
inline constexpr const char* serve = "For other programs";
inline constexpr const char* machine = "This machine";
}  // namespace group

/// Options that are added from now on stand under this heading.
void begin_group(CLI::App* verb, const char* heading);
/// Command lines with what they are for, at the end of the verb's --help.
void add_examples(CLI::App* verb, const std::vector<std::pair<std::string, std::string>>& examples);
/// A verb of a verb.
CLI::App* add_action(CLI::App* verb, const std::string& name, const std::string& description);
/// For the program, before verbs are added: they inherit it.
void set_formatter(CLI::App& app);

}  // namespace planish::cli
