#pragma once

#include <string>
#include <string_view>
#include <vector>

/// What stands in the text that a language model wrote.
namespace planish::coder {

/// Lines without their ends.
std::vector<std::string_view> lines_of_text(std::string_view text);

/// The answer without what stands between <think> and </think>: that was for itself. A template may hold the first tag
/// back; where the last one is missing everything after the first was thought.
std::string without_thoughts(std::string_view answer);

/// The text of its fenced blocks; one that is not closed goes to the end.
std::vector<std::string> code_blocks(std::string_view answer);

/// Whether a text has a launch line (docs/formats/source.md).
bool launches(std::string_view code);

/// Whether it is Python that defines a `ModelNew`: a class, a function or a name, at the beginning of a line. What
/// takes it from elsewhere (`from x import y as ModelNew`) is not: an answer is whole.
bool defines_module(std::string_view code);

}  // namespace planish::coder
