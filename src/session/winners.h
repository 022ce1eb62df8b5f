#pragma once

#include <cstddef>
#include <vector>

#include "search/search.h"
#include "session/compose.h"

namespace planish::session {

/// What the search found for the task cut with these of its ways (by their places): the winners of regions that beat
/// PyTorch's form, and those that stand in a way.
std::vector<Choice> winners(const search::Search& search, const std::vector<std::size_t>& fusions);

}  // namespace planish::session
