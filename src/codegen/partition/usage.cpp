#include "codegen/partition/usage.h"

#include <algorithm>

#include "codegen/lower/lower.h"

namespace planish::codegen {
namespace {

bool supported(const ir::Value& v) {
  return v.dtype != DType::other && v.elements() > 0;
}

/// A copy of a value of the program's own that lies as that does: its readers may as well read what it copies.
bool copies_nothing_anew(const ir::Graph& graph, const std::vector<int>& producers, const ir::GraphNode& node) {
  if (node.op != "aten.clone.default" || node.outs.size() != 1 || !node.outs[0]) return false;
  const auto ids = ir::reads(node);
  if (ids.size() != 1 || producers[static_cast<std::size_t>(ids[0])] < 0) return false;
  const auto& from = graph.values[static_cast<std::size_t>(ids[0])];
  const auto& to = graph.values[static_cast<std::size_t>(*node.outs[0])];
  for (std::size_t d = 0; d < to.shape.size(); ++d) {
    if (to.shape[d] > 1 && to.strides[d] != from.strides[d]) return false;
  }
  return supported(to) && std::ranges::none_of(graph.outputs, [&](const auto& o) { return o.value == *node.outs[0]; });
}

bool can_inline(const ir::Graph& graph, const std::vector<int>& producers, const ir::GraphNode& node) {
  if (copies_nothing_anew(graph, producers, node)) return true;
  const OpClass c = classify(node.op);
  if (c != OpClass::view && c != OpClass::creation) return false;
  for (const auto& out : node.outs) {
    if (out && !supported(graph.values[static_cast<std::size_t>(*out)])) return false;
  }
  if (c == OpClass::creation) return true;
  const ir::Arg* train = node.arg("train");
  if (train != nullptr && !(std::holds_alternative<bool>(train->data) && !std::get<bool>(train->data))) return false;
  // A view as another dtype reinterprets bits.
  const auto ids = ir::reads(node);
  return !ids.empty() && node.outs[0].has_value() &&
         graph.values[static_cast<std::size_t>(ids[0])].dtype ==
             graph.values[static_cast<std::size_t>(*node.outs[0])].dtype;
}

void add_unique(std::vector<int>& list, int item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

Usage::Usage(const ir::Graph& graph, const std::vector<int>& kept)
    : producers(graph.producers()),
      needed(graph.nodes.size(), false),
      inlined(graph.nodes.size(), false),
      users(graph.values.size()),
      shown(graph.values.size()) {
  std::vector<int> todo = kept;
  for (const auto& output : graph.outputs) {
    if (output.value < 0) continue;
    todo.push_back(output.value);
    add_unique(shown[static_cast<std::size_t>(output.value)], output.value);
  }
  while (!todo.empty()) {
    const int node = producers[static_cast<std::size_t>(todo.back())];
    todo.pop_back();
    if (node < 0 || needed[static_cast<std::size_t>(node)]) continue;
    needed[static_cast<std::size_t>(node)] = true;
    for (const int id : ir::reads(graph.nodes[static_cast<std::size_t>(node)])) todo.push_back(id);
  }
  // Backwards, so that what a view is used for is known before its argument is visited.
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    if (!needed[n]) continue;
    const auto& node = graph.nodes[n];
    inlined[n] = can_inline(graph, producers, node);
    for (const int id : ir::reads(node)) {
      const auto v = static_cast<std::size_t>(id);
      if (!inlined[n]) {
        add_unique(users[v], static_cast<int>(n));
        continue;
      }
      if (classify(node.op) == OpClass::creation) continue;  // zeros_like needs only the shape
      for (const auto& out : node.outs) {
        if (!out) continue;
        for (const int user : users[static_cast<std::size_t>(*out)]) add_unique(users[v], user);
        for (const int output : shown[static_cast<std::size_t>(*out)]) add_unique(shown[v], output);
      }
    }
  }
}

std::vector<int> Usage::sources(const ir::Graph& graph, int node) const {
  std::vector<int> result, todo = ir::reads(graph.nodes[static_cast<std::size_t>(node)]);
  std::vector<int> seen;
  while (!todo.empty()) {
    const int id = todo.back();
    todo.pop_back();
    if (std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
    seen.push_back(id);
    const int producer = producers[static_cast<std::size_t>(id)];
    if (producer >= 0 && inlined[static_cast<std::size_t>(producer)]) {
      const auto& view = graph.nodes[static_cast<std::size_t>(producer)];
      if (classify(view.op) == OpClass::creation) continue;
      for (const int from : ir::reads(view)) todo.push_back(from);
    } else {
      result.push_back(id);
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace planish::codegen
