#pragma once

#include "codegen/genome.h"
#include "codegen/kernel.h"

namespace planish::codegen::printing {

/// A scatter with a point of its space a thread; where devices permit, it waits by itself for the launches before.
/// Error kind `unsupported`: more points than a grid has threads.
Result<Emitted> emit_scatter(const Kernel& kernel, const Device& device, const Genome& genome);

}  // namespace planish::codegen::printing
