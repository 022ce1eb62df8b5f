#pragma once

#include <cstdint>
#include <string>

#include "backend/architecture.h"

namespace planish::judge {

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
Occupancy occupancy(const backend::Architecture& limits, const BlockNeeds& needs);

}  // namespace planish::judge
