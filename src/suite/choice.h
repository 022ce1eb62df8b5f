#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace planish::suite {

/// Whether a name is chosen.
using Choice = std::function<bool(std::string_view)>;

/// The names that an expression chooses, as pytest's -k does: parts of names, in any case, with `and`, `or`, `not` and
/// parentheses. Kind `usage`.
Result<Choice> parse_choice(const std::string& expression);

}  // namespace planish::suite
