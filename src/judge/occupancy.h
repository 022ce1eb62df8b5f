#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace planish::judge {

/// What one multiprocessor holds, and in which units it hands it out (CUDA programming guide, compute capabilities).
struct SmLimits {
  int warps = 64, blocks = 32;
  std::int64_t registers = 65536;       ///< of all its four parts together
  std::int64_t shared_bytes = 233472;   ///< of all resident blocks
  std::int64_t reserved_shared = 1024;  ///< what the system takes for each block
};
/// For an architecture by its name ("sm_90a"); one that is not known gets the limits of sm_90.
SmLimits sm_limits(std::string_view arch);

struct BlockNeeds {
  std::int64_t threads = 0, registers = 0;  ///< registers a thread
  std::int64_t shared_bytes = 0;            ///< static and dynamic
};

struct Occupancy {
  int blocks = 0;       ///< resident on a multiprocessor; 0: the block does not fit
  int warps = 0;        ///< of those blocks
  double fraction = 0;  ///< of the warps that the multiprocessor can hold
  std::string limiter;  ///< registers | shared | warps | blocks: what runs out first
};
Occupancy occupancy(const SmLimits& limits, const BlockNeeds& needs);

}  // namespace planish::judge
