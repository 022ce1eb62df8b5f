#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/options.h"
#include "cli/output.h"

/// Options that several verbs have. What they fill must outlive the parsing.
namespace planish::cli {

void add_output(CLI::App* verb, Output& output);
/// Behind add_output(): forms of verdicts that continuous integration reads.
void add_format(CLI::App* verb, Output& output);
void add_store(CLI::App* verb, std::string& store);
/// Solutions that this command, or an evaluator of its own, runs do not see this path (docs/sandbox.md).
void keep_from_guests(const std::string& path);
void add_patterns_file(CLI::App* verb, const char* name, std::string& file);
void add_task_timeout(CLI::App* verb, std::string& timeout);
void add_target(CLI::App* verb, std::string& target);
void add_accuracy(CLI::App* verb, std::string& accuracy);
void add_compat(CLI::App* verb, std::string& compat, std::string& precision);
void add_no_serve(CLI::App* verb, bool& no_serve);
/// What `optimize` and `suite` search with.
void add_search(CLI::App* verb, SearchOptions& search);

}  // namespace planish::cli
