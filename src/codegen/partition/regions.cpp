#include "codegen/partition/regions.h"

#include <algorithm>
#include <iterator>

namespace planish::codegen {
namespace {

/// The nodes that lead from the inputs to the outputs. What the kernel does not read, but their `aten` form needs,
/// becomes one more input: the weight of a norm whose statistics alone are wanted; what a creation (zeros_like) reads
/// only for its shape, where the nodes do not make it anyway, and it is not made from nothing.
std::vector<int> nodes_between(const ir::Graph& graph, const Usage& usage, const std::set<int>& inside,
                               std::vector<int>& inputs, const std::vector<int>& outputs) {
  const std::vector<int>& producers = usage.producers;
  std::set<int> nodes;
  std::vector<int> todo = outputs, shapes;
  while (!todo.empty()) {
    const int v = todo.back();
    todo.pop_back();
    if (std::find(inputs.begin(), inputs.end(), v) != inputs.end()) continue;
    const int node = producers[static_cast<std::size_t>(v)];
    if (node < 0 || (!usage.inlined[static_cast<std::size_t>(node)] && !inside.contains(node))) {
      inputs.push_back(v);
      continue;
    }
    if (!nodes.insert(node).second) continue;
    const auto& n = graph.nodes[static_cast<std::size_t>(node)];
    auto& list = classify(n.op) == OpClass::creation ? shapes : todo;
    for (const int id : ir::reads(n)) list.push_back(id);
  }
  std::sort(shapes.begin(), shapes.end());
  for (const int v : shapes) {
    const int node = producers[static_cast<std::size_t>(v)];
    if (node >= 0 && nodes.contains(node)) continue;
    if (node >= 0 && ir::reads(graph.nodes[static_cast<std::size_t>(node)]).empty()) {
      nodes.insert(node);
      continue;
    }
    if (std::find(inputs.begin(), inputs.end(), v) == inputs.end()) inputs.push_back(v);
  }
  return {nodes.begin(), nodes.end()};
}

}  // namespace

Region region_of(const ir::Graph& graph, const Usage& usage, const std::set<int>& inside, Kernel kernel,
                 const std::vector<int>& given) {
  Region region;
  for (const Input& input : kernel.inputs) region.inputs.push_back(input.value);
  std::ranges::copy_if(given, std::back_inserter(region.given),
                       [&](int v) { return std::ranges::find(region.inputs, v) != region.inputs.end(); });
  for (const Output& output : kernel.outputs) region.outputs.push_back(output.value);
  region.kernel = std::move(kernel);
  region.nodes = nodes_between(graph, usage, inside, region.inputs, region.outputs);
  return region;
}

}  // namespace planish::codegen
