#pragma once

#include <string>
#include <utility>
#include <vector>

namespace planish::report {

/// The settings of a run (settings_text) as name and value for people. A text that is no such document comes back as it
/// is, under "settings"; an empty one gives nothing.
std::vector<std::pair<std::string, std::string>> settings_words(const std::string& settings);

}  // namespace planish::report
