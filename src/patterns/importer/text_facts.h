#pragma once

#include <initializer_list>
#include <string_view>

#include "patterns/fact.h"

// Private to src/patterns/importer.
namespace planish::patterns {

/// What the words of a text say, of the facts with these names only; all of them where none is named.
void add_said(Facts& facts, std::string_view text, std::initializer_list<std::string_view> names = {});

/// Traits, dtypes and architectures that the code of a CUDA kernel shows, given without comments.
void add_shown(Facts& facts, std::string_view code);

/// Whether the text stands in the code other than behind a letter: uint8_t is no int8_t.
bool names(std::string_view code, std::string_view text);

/// A summary for a list: the first lines of a comment, cut at a word.
std::string summary_of(std::string_view comment);

}  // namespace planish::patterns
