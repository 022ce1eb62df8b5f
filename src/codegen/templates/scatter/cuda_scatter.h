#pragma once

#include <cstdint>

#include "codegen/genome.h"
#include "codegen/kernel.h"

namespace planish::codegen::printing {

/// Its blocks, and their shared memory. Of few points it has the place of any launch that begins early among others
/// (half_shared): a block a multiprocessor, most of which do nothing.
struct ScatterLaunch {
  std::int64_t blocks = 1, shared = 0;
};
ScatterLaunch scatter_launch(const Kernel& kernel, const Device& device, std::int64_t threads);

/// A scatter with a point of its space a thread; where devices permit, it waits by itself for the launches before.
/// Error kind `unsupported`: more points than a grid has threads.
Result<Emitted> emit_scatter(const Kernel& kernel, const Device& device, const Genome& genome);

}  // namespace planish::codegen::printing
