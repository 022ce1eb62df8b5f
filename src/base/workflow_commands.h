#pragma once

#include <string>
#include <string_view>

namespace planish {

/// The text with a space in whatever the runner of a workflow would carry out of it: `::` that begins a line, and `##[`
/// anywhere.
std::string without_workflow_commands(std::string_view text);

}  // namespace planish
