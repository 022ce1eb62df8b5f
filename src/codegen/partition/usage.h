#pragma once

#include <vector>

#include "ir/graph.h"

/// Private to codegen/partition: who needs what, seen through the operators that are inlined everywhere (views and
/// creations).
namespace planish::codegen {

struct Usage {
  /// `kept` are values that count as needed although no output may depend on them: what kernels store for others.
  explicit Usage(const ir::Graph& graph, const std::vector<int>& kept = {});

  std::vector<int> producers;
  std::vector<bool> needed;   ///< by node: some output depends on it
  std::vector<bool> inlined;  ///< by node: a view or creation that kernels absorb
  std::vector<std::vector<int>>
      users;  ///< by value: needed nodes that are not inlined and read it, directly or through inlined ones
  std::vector<std::vector<int>> shown;  ///< by value: graph outputs that are it or a view of it
  /// Values that a node reads once inlined nodes are looked through; those made from nothing vanish.
  std::vector<int> sources(const ir::Graph& graph, int node) const;
};

}  // namespace planish::codegen
