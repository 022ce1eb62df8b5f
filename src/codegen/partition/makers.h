#pragma once

#include <functional>
#include <set>

#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition: kernels that are found before all others are grown.
namespace planish::codegen {

struct KernelGroup {
  std::set<int> nodes;  ///< of the graph, without inlined ones
  Kernel kernel;
};

/// The nodes, without inlined ones, that make a value for `readers` alone, as far back as `may` allows: a kernel of the
/// readers can compute them itself, and nobody misses them.
std::set<int> makers_of(const ir::Graph& graph, const Usage& usage, int value, const std::set<int>& readers,
                        const std::function<bool(int)>& may);

}  // namespace planish::codegen
