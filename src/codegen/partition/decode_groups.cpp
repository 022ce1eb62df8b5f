#include "codegen/partition/decode_groups.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "codegen/attention/decode.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/makers.h"

namespace planish::codegen {
namespace {

/// The kernel, where it is attention of few queries.
std::optional<Kernel> decoding(const ir::Graph& graph, const Usage& usage, const std::set<int>& nodes, int output,
                               const LowerLimits& limits) {
  std::vector<bool> inside = usage.inlined;
  for (const int n : nodes) inside[static_cast<std::size_t>(n)] = true;
  const int outputs[] = {output};
  auto kernel = lower(graph, inside, outputs, limits);
  if (!kernel || kernel->anchor != Anchor::attention) return std::nullopt;
  const auto parts = attention_of(*kernel);
  if (!parts || !decode_of(*kernel, *parts)) return std::nullopt;
  return std::move(*kernel);
}

}  // namespace

std::vector<KernelGroup> decode_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits) {
  std::vector<KernelGroup> groups;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const ir::GraphNode& node = graph.nodes[static_cast<std::size_t>(n)];
    const ir::Arg* const query = node.arg("query");
    const auto* const queries = query == nullptr ? nullptr : std::get_if<ir::ValueRef>(&query->data);
    if (queries == nullptr || !usage.needed[static_cast<std::size_t>(n)] || node.outs.size() != 1 || !node.outs[0] ||
        !decoding(graph, usage, {n}, *node.outs[0], limits))
      continue;
    // Behind views.
    int value = queries->id;
    for (int maker = usage.producers[static_cast<std::size_t>(value)];
         maker >= 0 && usage.inlined[static_cast<std::size_t>(maker)];
         maker = usage.producers[static_cast<std::size_t>(value)]) {
      const auto read = ir::reads(graph.nodes[static_cast<std::size_t>(maker)]);
      if (read.size() != 1) break;
      value = read[0];
    }
    const auto pointwise = [&](int maker) {
      const auto at = static_cast<std::size_t>(maker);
      return usage.needed[at] && !usage.inlined[at] && classify(graph.nodes[at].op) == OpClass::pointwise;
    };
    std::set<int> nodes = makers_of(graph, usage, value, {n}, pointwise);
    if (nodes.empty()) continue;
    nodes.insert(n);
    if (static_cast<int>(nodes.size()) > limits.max_nodes) continue;
    if (auto kernel = decoding(graph, usage, nodes, *node.outs[0], limits))
      groups.push_back({std::move(nodes), std::move(*kernel)});
  }
  return groups;
}

}  // namespace planish::codegen
