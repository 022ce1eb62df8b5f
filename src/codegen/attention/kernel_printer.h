#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/attention/attention.h"
#include "codegen/attention/plan.h"
#include "codegen/kernel.h"

namespace planish::codegen::attention {

/// The kernel between packing and results. Arguments: both parts of queries, keys and values, their exponents (int),
/// then `inputs` of the attention kernel, then all its outputs.
///
/// A row whose sums are not finite is computed again, element by element as the definition says: pairs of fp16 do not
/// say where an infinity times a negative number, or times a part that vanished, belongs.
struct MainKernel {
  std::string source;  ///< header-free, for `sm_90a`; one entry `planish_kernel`
  std::vector<int> inputs;
  std::int64_t blocks = 0;
  int threads = 0;
  int shared_bytes = 0;
};
MainKernel print_kernel(const Kernel& kernel, const Attention& attention, const Tiling& plan);

}  // namespace planish::codegen::attention
