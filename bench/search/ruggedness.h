#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/genome.h"

namespace planish::bench {

/// What no analytic model knows: effects of single choices and of pairs of choices, drawn once for a surface. Those of
/// ordered choices are random walks, so that neighbours are alike.
class Ruggedness {
 public:
  Ruggedness(std::vector<codegen::Gene> genes, std::uint64_t seed, double single, double pairs)
      : genes_(std::move(genes)), seed_(seed), single_(single), pairs_(pairs) {}

  /// Natural logarithm of the factor on the time.
  double operator()(const codegen::Genome& genome) const {
    std::vector<std::uint64_t> at;
    for (const auto& gene : genes_) {
      std::uint64_t i = 0;
      while (i + 1 < gene.choices.size() && gene.choices[i] != genome.at(gene.name)) ++i;
      at.push_back(i);
    }
    double sum = 0;
    for (std::size_t i = 0; i < genes_.size(); ++i) {
      if (genes_[i].choices.size() < 2) continue;
      for (std::uint64_t k = 1; k <= at[i]; ++k) sum += single_ * normal(i, 1000, k, 0);
      for (std::size_t j = 0; j < i; ++j) {
        // A third of the pairs interact.
        if (genes_[j].choices.size() < 2 || mix(i, j, 0, 7) % 3 != 0) continue;
        sum += pairs_ * normal(i, j, at[i], at[j]);
      }
    }
    return sum;
  }
  /// The same 2 % of genomes fail, in clumps of two genes.
  bool fails(const codegen::Genome& genome) const {
    if (genes_.size() < 3) return false;
    const std::size_t a = mix(1, 2, 3, 4) % genes_.size();
    const std::size_t b = (a + 1 + mix(4, 3, 2, 1) % (genes_.size() - 1)) % genes_.size();
    const auto of = [&](std::size_t g) { return static_cast<std::uint64_t>(genome.at(genes_[g].name)); };
    return mix(of(a), of(b), 11, 13) % 50 == 0;
  }

 private:
  std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) const {
    std::uint64_t x = seed_;
    for (const std::uint64_t part : {a, b, c, d}) {
      x = (x ^ part) * 0x9e3779b97f4a7c15ULL;
      x ^= x >> 29U;
      x *= 0xbf58476d1ce4e5b9ULL;
      x ^= x >> 32U;
    }
    return x;
  }
  double normal(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) const {
    // Four uniform numbers: near enough to a bell.
    double sum = 0;
    for (std::uint64_t i = 0; i < 4; ++i) sum += static_cast<double>(mix(a * 8 + i, b, c, d) >> 11U) * 0x1p-53 - 0.5;
    return sum * std::sqrt(3.0);
  }
  std::vector<codegen::Gene> genes_;
  std::uint64_t seed_;
  double single_, pairs_;
};

}  // namespace planish::bench
