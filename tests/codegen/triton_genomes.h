#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string_view>

#include "codegen/genome.h"

/// Random genomes in Triton: those of codegen::random_genome() are always CUDA.
namespace planish::codegen::samples {

/// A legal genome whose `language` is Triton; nothing where the kernel has none.
inline std::optional<Genome> random_triton_genome(const Kernel& kernel, const Device& device, std::mt19937_64& rng) {
  constexpr std::array<std::string_view, 7> drawn{"threads", "vector", "unroll", "hints", "fast", "residency", "rows"};
  const auto known = genes(kernel, device);
  if (std::ranges::find(known, "language", &Gene::name) == known.end()) return std::nullopt;
  for (int attempt = 0; attempt < 300; ++attempt) {
    Genome genome;
    for (const auto& gene : known) {
      const bool open = std::ranges::find(drawn, gene.name) != drawn.end();
      genome[gene.name] = gene.choices[open ? rng() % gene.choices.size() : 0];
    }
    genome["language"] = 1;
    if (illegal(kernel, device, genome).empty()) return genome;
  }
  for (const auto& seed : seeds(kernel, device)) {
    if (seed.at("language") == 1) return seed;
  }
  return std::nullopt;
}

}  // namespace planish::codegen::samples
