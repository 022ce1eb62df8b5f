#pragma once

#include <string>

namespace planish::session {

/// The shortest and the longest that something took, over all times that it was measured; ms, 0 before the first.
struct TimeRange {
  double least_ms = 0, most_ms = 0;
  int times = 0;
  void saw(double lo_ms, double hi_ms);
};

/// What is known of a task before it is searched: the captured program as PyTorch's steps, the regions alone, eager.
struct Standing {
  TimeRange whole;        ///< the captured program, all of it PyTorch's steps
  double regions_ms = 0;  ///< of that the regions that can be searched, each as often as it is called
  int kept_steps = 0;     ///< PyTorch's steps outside all regions
  TimeRange eager;
};

/// One sentence: why no search can win, because what stays PyTorch's takes longer than all of eager even if the regions
/// took no time at all, the shortest time of the one against the longest of the other; empty where it may. What cannot
/// be told (a time that is missing) counts as hope.
std::string cannot_win(const Standing& standing);

/// One sentence: that measuring the same thing again gave another time, so that parts longer than the whole say
/// something of the machine and not of the task; empty where times were steady.
std::string unsteady(const Standing& standing);

}  // namespace planish::session
