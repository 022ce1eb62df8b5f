#pragma once

#include <vector>

#include "codegen/partition/makers.h"
#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition: kernels around products of a few rows (codegen/skinny/skinny.h), which are found
/// before all others. Every kernel between two such products is a time in which no weights are read; so they take in
/// what reads their results element by element (a residual, SiLU·mul of two products of one operand), products of the
/// same size and operand, and what makes their operand, a norm with its sums along rows included, which each kernel
/// that reads it computes for itself.
namespace planish::codegen {

/// Groups, none of whose nodes another kernel needs. Nodes may be in several groups: those that make an operand.
/// Deterministic.
std::vector<KernelGroup> skinny_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits);

}  // namespace planish::codegen
