#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/kernel.h"

/// What factors of contractions read, for those that are a load, cast or not.
namespace planish::codegen {

/// Settings of `variables` at the position `linear`, the last of them fastest, put into `values`.
inline void decode(const Kernel& kernel, const std::vector<int>& variables, std::int64_t linear,
                   std::vector<std::int64_t>& values) {
  for (std::size_t i = variables.size(); i-- > 0;) {
    const std::int64_t extent = kernel.space.extent(variables[i]);
    values[static_cast<std::size_t>(variables[i])] = linear % extent;
    linear /= extent;
  }
}

/// The load that a factor is.
inline const Node& load_of(const Kernel& kernel, int factor) {
  const Node* node = &kernel.nodes[static_cast<std::size_t>(factor)];
  while (node->op == Op::cast) node = &kernel.nodes[static_cast<std::size_t>(node->args[0])];
  REQUIRE(node->op == Op::load);
  return *node;
}

/// The element that the factor's load reads at a point of the space; nothing where it reads none.
inline std::optional<std::int64_t> element(const Kernel& kernel, int factor, const std::vector<std::int64_t>& at) {
  const Node& load = load_of(kernel, factor);
  for (const auto& bound : load.where) {
    const std::int64_t e = bound.e.evaluate(at);
    if (e < bound.lo || e >= bound.hi) return std::nullopt;
  }
  return load.index.evaluate(at);
}

}  // namespace planish::codegen
