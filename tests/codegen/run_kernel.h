#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "codegen/graph_builder.h"
#include "codegen/interpreter.h"
#include "codegen/lower/lower.h"

/// Kernels of whole graphs, and what the interpreter makes of them with inputs that say where their elements lie.
namespace planish::codegen {

/// The whole graph as one kernel.
inline Result<Kernel> all_of(const GraphBuilder& g, const std::vector<int>& outputs) {
  return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs);
}

/// Element `at` of the storage of graph value `input`.
inline double element(std::size_t input, std::size_t at) {
  return std::sin(static_cast<double>(at * 11 + input * 17 + 2));
}

/// What the kernel stores, each input filled by element().
inline std::vector<std::vector<double>> run(const Kernel& kernel) {
  std::vector<std::vector<double>> data;
  for (const Input& input : kernel.inputs) {
    std::vector<double> storage;
    for (std::int64_t i = 0; i < input.storage_elements; ++i)
      storage.push_back(element(static_cast<std::size_t>(input.value), static_cast<std::size_t>(i)));
    data.push_back(std::move(storage));
  }
  return Interpreter(kernel, data).run();
}

}  // namespace planish::codegen
