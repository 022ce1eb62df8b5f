#pragma once

#include <set>

#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition.
namespace planish::codegen {

/// The part of the graph that a kernel stands for, which was lowered with `inside` and all inlined nodes, and with
/// `given` (ascending; those that it does not read are dropped).
Region region_of(const ir::Graph& graph, const Usage& usage, const std::set<int>& inside, Kernel kernel,
                 const std::vector<int>& given);

}  // namespace planish::codegen
