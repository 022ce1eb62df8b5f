#pragma once

#include <string>
#include <vector>

namespace planish::cli {

/// The words as a person would type them: quoted where a shell would split or change one.
std::string command_line(const std::vector<std::string>& words);

}  // namespace planish::cli
