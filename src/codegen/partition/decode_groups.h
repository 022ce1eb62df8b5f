#pragma once

#include <vector>

#include "codegen/partition/makers.h"
#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition: attention of few queries (codegen/attention/decode.h) with what makes its queries, a
/// rotary embedding say. Queries are few beside the keys, so that every block computes its own; by itself that is a
/// launch of a few thousand elements.
namespace planish::codegen {

/// One for each such attention whose queries are computed for it alone; no node is in two. Deterministic.
std::vector<KernelGroup> decode_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits);

}  // namespace planish::codegen
