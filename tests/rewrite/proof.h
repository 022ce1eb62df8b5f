#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

#include "field.h"
#include "rewrite/rewrite.h"

/// What tests of rules ask.
namespace planish::rewrite {

/// Random elements of the field for every input.
inline Elements random_inputs(const ir::Graph& graph, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  Elements out;
  for (const ir::GraphInput& input : graph.inputs) {
    auto& elements = out[input.value];
    elements.resize(static_cast<std::size_t>(graph.values[static_cast<std::size_t>(input.value)].elements()));
    for (Field& one : elements) one = rng() % prime;
  }
  return out;
}

/// Whether both graphs give the same at random arguments: outputs that are polynomials of the inputs are then equal.
inline void check_equal(const ir::Graph& one, const ir::Graph& other, std::uint64_t seeds = 3) {
  for (const ir::GraphOutput& output : one.outputs) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const auto inputs = random_inputs(one, seed);
      const auto left = evaluate(one, inputs, output.value);
      const auto right = evaluate(other, inputs, output.value);
      REQUIRE(left.has_value());
      REQUIRE(right.has_value());
      CHECK(*left == *right);
    }
  }
}

/// Whether the proof tells a wrong graph from the right one, whose first output can be computed.
inline void check_different(const ir::Graph& right, const ir::Graph& wrong) {
  const auto inputs = random_inputs(right, 0);
  const int output = right.outputs[0].value;
  const auto wanted = evaluate(right, inputs, output);
  REQUIRE(wanted.has_value());
  CHECK(wanted != evaluate(wrong, inputs, output));
}

inline void unchanged(const ir::Graph& graph, const Options& options = {}) {
  const Rewritten found = rewrite(graph, options);
  CHECK(found.applied.empty());
  CHECK(found.graph.nodes.size() == graph.nodes.size());
}

inline bool has(const ir::Graph& graph, const std::string& op) {
  return std::ranges::any_of(graph.nodes, [&](const ir::GraphNode& node) { return node.op == "aten." + op; });
}

}  // namespace planish::rewrite
