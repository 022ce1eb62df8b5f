#pragma once

#include <string>

#include "codegen/partition/partition.h"
#include "ir/graph.h"

namespace planish::coder {

/// A region for whoever writes a source of it: a line for each buffer that its launches may name, then its operations
/// in order, as PyTorch calls them.
///
///     in0: f32[128, 4096], contiguous
///     out0: f32[128], contiguous
///     v3 = aten.mul.Tensor(self=in0, other=2.0)
///     out0 = aten.sum.dim_IntList(self=v3, dim=[1], keepdim=false, dtype=none)
std::string describe(const ir::Graph& graph, const codegen::Region& region);

/// The region in a few words to look similar kernels up by: `kind`, the operators (without those that only move or
/// name data), the element types; each once, in the order of their first appearance.
std::string topic(const ir::Graph& graph, const codegen::Region& region, std::string kind);

}  // namespace planish::coder
