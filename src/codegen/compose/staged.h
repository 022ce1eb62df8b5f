#pragma once

#include "codegen/genome.h"
#include "codegen/partition/partition.h"

namespace planish::codegen {

/// The launches of a region of several kernels: those before, each as its first guess says, and `last`, which was
/// emitted for its own kernel. Local values lie in scratch. `last` itself where there are none before. Kinds of emit().
Result<Emitted> staged(const Region& region, Emitted last, const Device& device);

}  // namespace planish::codegen
