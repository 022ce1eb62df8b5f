#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace planish::coder {

/// Replaces one place of a text.
struct Edit {
  std::string search, replace;
  auto operator<=>(const Edit&) const = default;
};

/// The text with every edit applied, one after the other. Kind `bad_patch`: no edits, nothing to search for, what is
/// searched for stands nowhere or more than once, nothing is changed. The message names the edit.
Result<std::string> apply_edits(std::string text, const std::vector<Edit>& edits);

}  // namespace planish::coder
