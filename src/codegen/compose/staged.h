#pragma once

#include "codegen/genome.h"
#include "codegen/partition/partition.h"

namespace planish::codegen {

/// The launches of a region of several kernels: those before, each as its first guess says, and `last`, which was
/// emitted for its own kernel; operators of PyTorch's where these are stages. Local values lie in scratch. `last`
/// itself where there are none before. Kinds of emit().
Result<Emitted> staged(const Region& region, Emitted last, const Device& device);

/// The one step of a region that PyTorch's own operator runs (Region::library), without those before.
Emitted library_step(const Region& region);

/// All launches of a region whose kernel has this genome (none of a region that an operator of PyTorch's runs). Kinds
/// of emit().
Result<Emitted> emit(const Region& region, const Device& device, const Genome& genome);

}  // namespace planish::codegen
