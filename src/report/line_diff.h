#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace planish::report {

struct DiffLine {
  char mark = ' ';  ///< ' ' both, '-' before only, '+' after only, '@' some equal lines were left out
  std::string_view text;
};

/// The shortest edit between two texts by lines, with `context` equal lines around each change. Views into the
/// arguments. Texts of more than `most_lines` lines in all are not compared: the answer is one '@' line.
std::vector<DiffLine> line_diff(std::string_view before, std::string_view after, std::size_t context = 3,
                                std::size_t most_lines = 4000);

}  // namespace planish::report
