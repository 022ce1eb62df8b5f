#pragma once

#include <optional>
#include <set>
#include <vector>

#include "codegen/partition/usage.h"
#include "ir/graph.h"

/// Private to codegen/partition: where a kernel that folds rows can be cut in two.
namespace planish::codegen {

/// Where a kernel is cut: what is stored there.
struct Statistics {
  std::vector<int> values;  ///< ascending
  std::set<int> nodes;  ///< that make some of them, and that nothing else needs: the same norm in fp32, of a 16-bit one
};

/// Values that nodes in `nodes` make, smaller than `outputs` by half at least, from which (and from what the nodes
/// read) all of `outputs` follow element by element: sums and extremes of rows, and what is computed of them alone; the
/// mean and 1/σ of a norm. Those in `given` count as read from elsewhere. Null where there are none: outputs that
/// follow without them, folds whose results the graph does not name (a softmax), running values.
/// `folds`: what is folded behind may be folded again, of elements that follow from such values.
std::optional<Statistics> statistics_between(const ir::Graph& graph, const Usage& usage, const std::set<int>& nodes,
                                             const std::vector<int>& given, const std::vector<int>& outputs,
                                             bool folds = false);

}  // namespace planish::codegen
