#pragma once

#include <string>
#include <string_view>

namespace planish {

/// The text with a space in whatever GitHub's runner would carry out of it: `::` that begins a line, and `##[`
/// anywhere.
std::string without_workflow_commands(std::string_view text);

}  // namespace planish
