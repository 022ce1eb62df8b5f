#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string_view>

#include "codegen/templates/genomes.h"

/// Random genomes with teams: most of those that codegen::random_genome() draws have none, as a team rules out much.
namespace planish::codegen::samples {

/// A legal genome whose `team` is not 0; nothing where the kernel has none or three thousand draws found none.
inline std::optional<Genome> random_team_genome(const Kernel& kernel, const Device& device, std::mt19937_64& rng) {
  constexpr std::array<std::string_view, 14> drawn{
      "threads",   "vector", "unroll",      "hints",          "fast",     "min_blocks",         "split",
      "residency", "online", "cooperative", "pipeline_depth", "prefetch", "register_residency", "reverse"};
  const auto known = genes(kernel, device);
  const auto team = std::ranges::find(known, "cooperative", &Gene::name);
  if (team == known.end() || team->choices.size() < 2) return std::nullopt;
  const Genomes genomes(kernel, device);
  for (int attempt = 0; attempt < 3000; ++attempt) {
    Genome genome;
    for (const auto& gene : known) {
      const bool open = std::ranges::find(drawn, gene.name) != drawn.end();
      genome[gene.name] = gene.choices[open ? rng() % gene.choices.size() : 0];
    }
    if (genome.at("cooperative") != 0 && genomes.legal(genome)) return genome;
  }
  return std::nullopt;
}

}  // namespace planish::codegen::samples
