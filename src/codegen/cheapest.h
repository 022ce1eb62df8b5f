#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "codegen/gene.h"

namespace planish::codegen {

/// The twelve genomes of the least cost (first), cheapest first; of equal ones those that come first.
inline std::vector<Genome> cheapest(std::vector<std::pair<double, Genome>> found) {
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
  constexpr std::size_t most = 12;
  std::vector<Genome> out;
  for (auto& [cost, genome] : found) {
    if (out.size() < most) out.push_back(std::move(genome));
  }
  return out;
}

}  // namespace planish::codegen
