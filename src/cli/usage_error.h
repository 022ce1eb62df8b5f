#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace planish::cli {

/// What is wrong with a command line that CLI11 refused, in words: an unknown verb or option is named as such, with the
/// one that was probably meant. Kind `usage`.
Error usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace planish::cli
