#pragma once

#include <string>
#include <string_view>

namespace planish::program {

/// A source with comments and meaningless white space removed, and every whole word `entry` replaced by `new_entry`.
/// For hashing only: the result of a C-family source is not meant to be compiled. Text in string literals is left
/// alone. Triton keeps its indentation.
std::string normalise_source(std::string_view source, std::string_view language, std::string_view entry,
                             std::string_view new_entry);

}  // namespace planish::program
