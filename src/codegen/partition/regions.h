#pragma once

#include <set>

#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition.
namespace planish::codegen {

/// Operations (Cost::flops) that take as long as moving one byte, roughly, on GPUs and CPUs of today: 30 T/s beside
/// 4 TB/s, 100 G/s beside 20 GB/s.
inline constexpr double flops_per_byte = 6;

/// The part of the graph that a kernel stands for, which was lowered with `inside` and all inlined nodes, and with
/// `given` (ascending; those that it does not read are dropped).
Region region_of(const ir::Graph& graph, const Usage& usage, const std::set<int>& inside, Kernel kernel,
                 const std::vector<int>& given);

}  // namespace planish::codegen
