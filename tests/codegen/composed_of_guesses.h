#pragma once

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "codegen/compose/compose.h"
#include "codegen/devices.h"
#include "codegen/genome.h"
#include "codegen/graph_builder.h"
#include "codegen/partition/partition.h"

namespace planish::codegen {

/// The graph's program on an H200, tensor cores for its products, with the first guess of every kernel's schedule;
/// fails the test case where there is none.
inline program::Program composed_of_guesses(const GraphBuilder& g) {
  PartitionOptions options;
  options.limits.contractions = true;
  auto cut = partition(g.graph, options);
  REQUIRE(cut.has_value());
  std::vector<Choice> choices;
  for (const Region& region : cut->regions) {
    const auto guesses = seeds(region.kernel, h200());
    REQUIRE_FALSE(guesses.empty());
    auto emitted = emit(region.kernel, h200(), guesses.front());
    REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
    choices.emplace_back(std::move(*emitted));
  }
  auto program = compose(g.graph, *cut, choices, h200(), Packings::together);
  REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
  return std::move(*program);
}

}  // namespace planish::codegen
