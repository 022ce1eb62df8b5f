#include "search/budget.h"

#include <algorithm>
#include <cmath>

namespace planish::search {

int next_region(const std::vector<Share>& shares, double floor) {
  double total = 0;
  int open = 0;
  for (const Share& share : shares) {
    if (!share.open) continue;
    ++open;
    if (std::isfinite(share.headroom_ms)) total += std::max(share.headroom_ms, 0.0);
  }
  int chosen = -1;
  double least = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    if (!share.open) continue;
    const double equal = 1.0 / open;
    // An unmeasured region counts as an equal part: its headroom is not known, and one proposal will tell.
    double part = equal;
    if (std::isfinite(share.headroom_ms)) part = total > 0 ? std::max(share.headroom_ms, 0.0) / total : equal;
    part = std::max(part, floor * equal);
    const double behind = static_cast<double>(share.spent + 1) / part;
    if (chosen < 0 || behind < least) {
      chosen = static_cast<int>(i);
      least = behind;
    }
  }
  return chosen;
}

}  // namespace planish::search
