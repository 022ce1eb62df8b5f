#pragma once

#include <string>
#include <vector>

#include "evaluate/api.h"

namespace planish::session {

/// What it means that these outputs would pass (`degenerate` of a result, not empty), and what to do about it: no full
/// stop, no line break.
std::string degenerate_words(const std::vector<std::string>& would_pass);

/// Whether this one of `degenerate` is all of the work with less precision ("tf32 products"), not zeros, a constant or
/// an input, which take no work.
bool is_lower_precision(const std::string& would_pass);

/// Those of `degenerate` for which a proof proves nothing. Of what `optimize` shipped a lower precision is none of
/// them: its kernels were judged region by region (settled_by_regions) before it claimed anything.
std::vector<std::string> unproven_by(const std::vector<std::string>& degenerate, bool shipped_by_us);

/// Takes lower precisions out of `degenerate` that fail at the boundary of every region whose kernels ship (`regions`,
/// not empty): everything else is PyTorch's own operators, so no kernel's rounding is hidden by what follows it. Gives
/// a note for each. What was not tried in a region stays.
std::vector<Note> settled_by_regions(std::vector<std::string>& degenerate, const std::vector<RegionReply>& regions);

}  // namespace planish::session
