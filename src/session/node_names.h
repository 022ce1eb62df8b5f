#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

/// Nodes of a captured graph as people know them: operators and lines of their own source.
namespace planish::session {

/// "layer_norm" for `aten.native_layer_norm.default`.
std::string operator_name(const std::string& op);
/// "mul, relu ×2, sum": in the order of their first use, views left out unless there is nothing else; the rest of a
/// long list is counted.
std::string operators_text(const ir::Graph& graph, const std::vector<int>& nodes, std::size_t most = 6);
/// "model.py:14-17, blocks.py:3": the lines they came from, files in the order of their first use. Empty where the
/// graph does not know.
std::string places_text(const ir::Graph& graph, const std::vector<int>& nodes);
/// Whether the operator moves data when PyTorch runs it by itself: neither a view nor made from nothing.
bool does_work(const ir::GraphNode& node);

}  // namespace planish::session
