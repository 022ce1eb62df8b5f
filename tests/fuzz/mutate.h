#pragma once

// Include from .cpp files only (base/json.h).
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"

/// Seeded mutations of documents: what a hostile or broken peer could say. The same seed gives the same text.
namespace fuzz {

using planish::Json;
using Random = std::mt19937_64;

/// One to four changes of a document's tree: values of other types and sizes, fields gone, doubled, moved or unknown,
/// brackets in brackets.
Json mutated(Json document, Random& random);
/// As text, and in one of four with a few bytes changed, cut off or doubled.
std::string mutated_text(const Json& document, Random& random);

/// How many documents a test tries: PLANISH_FUZZ_CASES, or `usual`.
int cases(int usual);
/// Where it begins: PLANISH_FUZZ_SEED, or 1. A failure names its seed: a run of one case from there repeats it.
std::uint64_t first_seed();

}  // namespace fuzz
