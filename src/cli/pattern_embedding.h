#pragma once

#include <string>

#include "cli/patterns.h"

namespace planish::cli {

Result<patterns::Library> open_library(const PatternsVerb& options);

/// `planish patterns embed`.
int embed_action(const PatternsVerb& options, const Output& output);

/// The vector that a search ranks by; an empty one where it goes by words and facts alone. `note`: why, where an
/// endpoint is configured or vectors are there.
struct SearchVector {
  std::string vector, note;
};
/// Only what is wrong with the index or the configuration is an error: a search needs no endpoint.
Result<SearchVector> query_vector(const PatternsVerb& options, const patterns::Library& library);

}  // namespace planish::cli
