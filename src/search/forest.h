#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "search/space.h"

namespace planish::search {

/// What a region's measurements so far say of genomes not yet measured: extremely randomised regression trees over
/// positions in the genes' choices. It knows nothing of what a gene means; it handles cliffs and interactions, which
/// schedules are full of, and where its trees disagree little is known. One thread.
class Forest {
 public:
  struct Guess {
    double mean = 0;    ///< log ms
    double spread = 0;  ///< standard deviation between trees
  };

  /// Learns anew. `features`: how many positions of a code count. A few milliseconds for 500 rows.
  void fit(std::span<const Code> rows, std::span<const double> log_ms, int features, std::mt19937_64& rng);
  bool fitted() const { return !roots_.empty(); }
  Guess guess(const Code& code) const;
  /// The same for many: trees are walked by several at a time, which hides the waiting for each other's nodes.
  void guess(std::span<const Code> codes, std::span<Guess> out) const;

 private:
  struct Node {
    std::uint8_t feature = 0;
    std::uint8_t cut = 0;    ///< at most this goes left
    std::int32_t left = -1;  ///< right is left + 1; −1: a leaf
    float value = 0;
  };
  void grow(std::span<const Code> rows, std::span<const double> values, std::size_t features, std::mt19937_64& rng);
  std::vector<Node> nodes_;
  std::vector<std::int32_t> roots_;
};

}  // namespace planish::search
