#pragma once

#include <set>
#include <vector>

#include "codegen/partition/makers.h"
#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition: attention of few queries (codegen/attention/decode.h) with what makes its operands.
/// - Queries, a rotary embedding say: they are few beside the keys, so that every block computes its own.
/// - Keys and values, taken from pages that a table names, or from codes with scales: a cache is read once either way,
///   and what is made of it would be written and read again.
/// - Masks that are computed, for all of a model's layers or for none: what one says of lengths is known before keys
///   are read.
namespace planish::codegen {

/// Attention of many queries (codegen/attention/half.h) is with what takes its keys and values from pages, and with its
/// mask, alike; its queries are read.
///
/// Attention that is written down, as two products with whatever lies between, is such attention, too.
///
/// One for each such attention of whose operands one is computed for it alone, or whose mask is for such attentions
/// alone; no node but a mask's is in two. Deterministic.
/// `taken`: nodes of other kernels, which no such attention computes.
std::vector<KernelGroup> decode_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits,
                                       const std::set<int>& taken);

}  // namespace planish::codegen
