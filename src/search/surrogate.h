#pragma once

#include <random>
#include <span>
#include <vector>

#include "search/forest.h"
#include "search/space.h"

namespace planish::search {

/// What the measurements of a region say of genomes not yet measured: log ms as a sum of effects of single choices,
/// which a few dozen measurements can tell (times are mostly products), plus a forest of what is left over: cliffs and
/// interactions. It knows nothing of what a gene means. One thread.
class Surrogate {
 public:
  /// Learns anew; a few milliseconds for 500 rows. `features`: how many positions of a code count.
  void fit(std::span<const Code> rows, std::span<const double> log_ms, int features, std::mt19937_64& rng);
  bool fitted() const { return forest_.fitted(); }
  /// The spread grows where trees disagree, and with choices that were hardly tried.
  Forest::Guess guess(const Code& code) const;
  void guess(std::span<const Code> codes, std::span<Forest::Guess> out) const;

 private:
  struct Effect {
    double value = 0;
    int count = 0;
  };
  std::size_t features_ = 0;
  std::vector<Effect> effects_;      ///< by position and choice, 256 of each
  double mean_ = 0, left_over_ = 0;  ///< standard deviation that single effects do not explain
  Forest forest_;
};

}  // namespace planish::search
