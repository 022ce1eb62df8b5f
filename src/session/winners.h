#pragma once

#include <cstddef>
#include <vector>

#include "search/search.h"
#include "session/compose.h"

namespace planish::session {

/// What the search found for the task cut with these of its ways (by their places): the winners of regions that beat
/// PyTorch's form, and those that stand in a way.
std::vector<Choice> winners(const search::Search& search, const std::vector<std::size_t>& fusions);

/// These choices and one for each region besides, with what is not better than PyTorch's form by itself: the best that
/// was found, or, where `untried` and nothing was, the first guess that neither rounds factors nor approximates. A step
/// of PyTorch's costs the host more than a launch, and keeps all others from being submitted at once.
std::vector<Choice> with_the_rest(const search::Search& search, const std::vector<std::size_t>& fusions,
                                  std::vector<Choice> choices, bool untried);

}  // namespace planish::session
