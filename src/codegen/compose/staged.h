#pragma once

#include "codegen/genome.h"
#include "codegen/partition/partition.h"

namespace planish::codegen {

/// The kernel of a region whose genome is the region's: of several the one that has the most to do. The others are
/// launched as their first guesses say. Where an operator of PyTorch's comes last none has genes.
const Kernel& searched_kernel(const Region& region, const Device& device);

/// The launches of a region of several kernels, `searched` being those of searched_kernel(), or of the last operator of
/// PyTorch's; operators of PyTorch's where these are stages. Local values lie in scratch. `searched` itself where there
/// is one kernel. Kinds of emit().
Result<Emitted> staged(const Region& region, Emitted searched, const Device& device);

/// The one step of a region that PyTorch's own operator runs (Region::library), without those before.
Emitted library_step(const Region& region);

/// All launches of a region whose searched kernel has this genome (none of a region that an operator of PyTorch's
/// runs). Kinds of emit().
Result<Emitted> emit(const Region& region, const Device& device, const Genome& genome);

}  // namespace planish::codegen
