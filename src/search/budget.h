#pragma once

#include <cstdint>
#include <vector>

namespace planish::search {

/// What a search may cost. Zero means no limit of that kind.
struct Budget {
  double seconds = 60;
  std::int64_t evaluations = 0;
};

/// One region, as the sharing of the budget sees it.
struct Share {
  bool open = true;        ///< false: nothing more to try
  std::int64_t spent = 0;  ///< proposals so far
  double headroom_ms = 0;  ///< (best − roofline bound) × times it is called; infinity where nothing was measured yet
};

/// Which region is next: the one furthest behind its share, where shares follow headroom and none falls below
/// `floor` of an equal part. -1 if none is open. Ties go to the lower index.
int next_region(const std::vector<Share>& shares, double floor = 0.1);

}  // namespace planish::search
