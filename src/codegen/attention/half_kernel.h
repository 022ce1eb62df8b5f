#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/attention/half.h"
#include "codegen/attention/mma_attention.h"

namespace planish::codegen::attention {

/// The device file with its policy, functors and one instantiation. Arguments: `inputs` of the attention kernel, all
/// its outputs, 384 bytes for each block that is launched (tensor maps), and where the plan deals two counters, which
/// are zeros before and behind. Any number of blocks does the work.
struct HalfKernel {
  std::string source;   ///< header-free, for `sm_90a`; one entry `planish_kernel`
  std::string printed;  ///< its end: what follows the device file
  std::vector<int> inputs;
  std::int64_t tiles = 0;  ///< more blocks than these have nothing to do
  int threads = 0;
  std::int64_t shared_bytes = 0;
};
inline constexpr std::int64_t half_map_bytes = 384, half_counter_bytes = 8;
HalfKernel print_half_kernel(const Kernel& kernel, const Attention& attention, const HalfAttention& half,
                             const HalfTiling& plan, std::int64_t shared_limit);

/// The same by warps, without memory for maps.
HalfKernel print_mma_kernel(const Kernel& kernel, const Attention& attention, const HalfAttention& half,
                            const MmaAttentionTiling& plan);

}  // namespace planish::codegen::attention
