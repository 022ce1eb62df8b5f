#pragma once

#include <map>

#include "codegen/compose/kernel_origin.h"

/// Attention of few queries over a cache that the program does not write: its keys, and what says which count and where
/// they lie, were there before the program began, so that they are asked for while launches before it still run.
namespace planish::codegen {

/// `origins`: as join_writes() has them, whose launches are others already. Kernels that are launched no more stay.
void read_early(program::Program& program, const std::map<int, KernelOrigin>& origins, const Device& device);

}  // namespace planish::codegen
