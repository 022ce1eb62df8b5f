#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "patterns/fact.h"

/// The one vocabulary of texts, identifiers and queries: "CollectiveMmaSm90", "hopper mma" and "h100" meet here.
namespace planish::patterns {

/// Words in lower case: identifiers are split where their case changes, synonyms and phrases get one spelling
/// ("matmul" → gemm, "split-k" → splitk, "hopper" → sm90), endings go. At most `limit` words. ASCII letters and digits
/// alone make words.
std::vector<std::string> words(std::string_view text, std::size_t limit = 4096);

/// What such words say, as facts: "sm90" → arch 90, "128x256x64" → a tile, "e4m3" → dtypes e4m3 and fp8.
Facts recognise(const std::vector<std::string>& words);

}  // namespace planish::patterns
