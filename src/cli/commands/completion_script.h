#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace planish::cli {

/// A script that completes verbs, options and their words, made of the program's own tree of verbs. `shell`: bash, zsh
/// or fish.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace planish::cli
