#pragma once

#include <string>
#include <vector>

namespace planish::session {

/// What it means that these outputs would pass (`degenerate` of a result, not empty), and what to do about it: no full
/// stop, no line break.
std::string degenerate_words(const std::vector<std::string>& would_pass);

}  // namespace planish::session
