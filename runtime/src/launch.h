#pragma once

#include <cstdint>

#include "program.h"

namespace planish::rt {

/// What one launch hands to the driver: `params[i]` points at argument i. Not to be copied, as it points into itself.
struct Arguments {
  std::uint64_t addresses[max_launch_args];
  void* params[max_launch_args + 2];
  std::uint64_t scratch = 0;

  Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  /// Fills in the arguments of a launch step; `pointers` and `workspace` as in `address`. The step outlives them.
  Status gather(const prt_program& program, const Step& step, void* const* pointers, std::uint64_t workspace);
};

/// Whether a launch step may begin while the launch before it, of the same call, still runs. Not the `first` of a call:
/// what lies before that in the stream is not ours, and may still be writing what the kernel reads before it waits.
/// Copies and fills between two launches make the driver wait for them in full.
inline bool overlaps(const Step& step, bool first) {
  return step.programmatic && !first;
}

/// What a launch asks for beside its sizes: the attributes of a step, in an order of their own.
struct Attributes {
  cu::LaunchAttribute list[3]{};
  unsigned int count = 0;

  Attributes() = default;
  /// `overlapping`: begins before what precedes it in its stream has ended (in a graph the edge says so).
  explicit Attributes(const Step& step, bool overlapping = false);
};

}  // namespace planish::rt
