#pragma once

#include <cstddef>
#include <vector>

#include "search/search.h"
#include "session/compose.h"

namespace planish::session {

/// What the search found for the task cut with these of its ways (by their places): the winners of regions that beat
/// PyTorch's form, and those that stand in a way.
std::vector<Choice> winners(const search::Search& search, const std::vector<std::size_t>& fusions);

/// What stands for a region that nothing was tried for: its first guess, that guess without rounded factors, or
/// nothing; and the guess without rounded factors for one of which nothing but rounded candidates were tried, and
/// failed. None of them approximates.
enum class Untried { guessed, exact, none };

/// These choices and one for each region besides, with what is not better than PyTorch's form by itself: the best that
/// was found, or what `untried` says. A step of PyTorch's costs the host more than a launch, and keeps all others from
/// being submitted at once.
std::vector<Choice> with_the_rest(const search::Search& search, const std::vector<std::size_t>& fusions,
                                  std::vector<Choice> choices, Untried untried);

}  // namespace planish::session
