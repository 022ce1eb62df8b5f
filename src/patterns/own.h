#pragma once

#include <string>
#include <vector>

#include "patterns/pattern.h"

namespace planish::patterns {

/// Name of the corpus of our own patterns.
inline constexpr const char* own_corpus = "planish";

/// Our own patterns: one for each template of the registry, in its order, with its text and what it achieved in
/// published results (patterns/ of the repository).
std::vector<Pattern> own_patterns();

/// Names of the templates that kernels of this anchor may be printed by (stored outcomes are filed under anchors).
std::vector<std::string> templates_of_anchor(std::string_view anchor);

}  // namespace planish::patterns
