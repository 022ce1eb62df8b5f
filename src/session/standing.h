#pragma once

#include <string>

namespace planish::session {

/// What is known of a task before it is searched: the captured program as PyTorch's steps, the regions alone, eager.
struct Standing {
  double whole_ms = 0;                   ///< the captured program, all of it PyTorch's steps
  double regions_ms = 0;                 ///< of that the regions that can be searched, each as often as it is called
  int kept_steps = 0;                    ///< PyTorch's steps outside all regions
  double eager_ms = 0, eager_hi_ms = 0;  ///< median, and the upper end of its interval
};

/// One sentence: why no search can win, because what stays PyTorch's takes longer than all of eager even if the regions
/// took no time at all; empty where it may. What cannot be told (a time that is missing) counts as hope.
std::string cannot_win(const Standing& standing);

}  // namespace planish::session
