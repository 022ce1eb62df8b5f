#pragma once

#include <vector>

#include "codegen/partition/makers.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition: products of two tensors of 8 bits (codegen/contraction/eight_bits.h), which are found
/// before all others. In a graph the factors of float8 are widened to f32 and perhaps scaled before a product in f32,
/// whose scales, bias and rounding to 16 bits follow: only all of that together is a product that tensor cores compute
/// of 8 bits; its rows may belong to groups (codegen/grouped/grouped.h). A product of int8 has sums in i32, which are
/// scaled, and to which vectors are added.
namespace planish::codegen {

/// Groups, none of whose nodes another kernel needs. Nodes may be in several groups: those that widen one tensor for
/// several products. `taken`: nodes of other kernels. Deterministic.
std::vector<KernelGroup> eight_bit_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits,
                                          const std::set<int>& taken);

}  // namespace planish::codegen
