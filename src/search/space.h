#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "coder/domain.h"
#include "search/key_set.h"

namespace planish::search {

/// A genome as positions in its genes' lists of choices. Only genes with more than one choice take part.
struct Code {
  static constexpr int most = 64;
  std::array<std::uint8_t, most> at{};
  bool operator==(const Code&) const = default;
};

/// The genomes of one region in compact form. A code is 64 bytes and a key eight, a domain's genome a map with a dozen
/// strings: what is drawn, ranked and remembered by the million is in these forms. One thread.
///
/// Genes beyond the 64th open one, and choices beyond a gene's 255th, are left at what the first seed has.
class Space {
 public:
  explicit Space(std::shared_ptr<const coder::Domain> domain);
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  /// Open genes.
  int genes() const { return static_cast<int>(open_.size()); }
  const codegen::Gene& gene(int i) const { return open_[static_cast<std::size_t>(i)]; }
  int choices(int i) const { return counts_[static_cast<std::size_t>(i)]; }
  /// All genes of the domain, in its order.
  const std::vector<codegen::Gene>& all_genes() const { return all_; }
  /// Combinations, legal or not.
  double size() const { return size_; }

  /// Nothing where the genome has a gene or a value that this space does not.
  std::optional<Code> encode(const codegen::Genome& genome) const;
  codegen::Genome decode(const Code& code) const;
  /// The same without building a map: it holds until the next call.
  const codegen::Genome& view(const Code& code) const;
  /// Exact where there are fewer than 2⁶⁴ combinations, else a hash.
  std::uint64_t key(const Code& code) const;
  /// The code with this number, 0 … size() − 1 (in spaces small enough to be walked).
  Code numbered(std::uint64_t number) const;

  Code draw(std::mt19937_64& rng) const;
  /// Asks the domain, once for each genome, and remembers which pairs of choices legal genomes have.
  bool legal(const Code& code);
  /// False where some pair of choices was met often and never in a legal genome: a guess that costs nanoseconds where
  /// legal() costs microseconds. Never false before enough was learned.
  bool plausible(const Code& code) const;

 private:
  struct Pair {
    std::uint16_t met = 0;
    bool legal = false;
  };
  /// Position in pairs_ of what the code has at i and j < i; `at` numbers such pairs.
  std::size_t pair(std::size_t at, std::size_t i, std::size_t j, const Code& code) const {
    return starts_[at] + static_cast<std::size_t>(code.at[i]) * static_cast<std::size_t>(counts_[j]) + code.at[j];
  }

  std::shared_ptr<const coder::Domain> domain_;
  std::vector<codegen::Gene> all_, open_;
  std::vector<int> counts_;
  codegen::Genome fixed_;  ///< genes that are not open
  double size_ = 1;
  std::vector<std::size_t> starts_;  ///< of each pair's table in pairs_
  std::vector<Pair> pairs_;
  mutable codegen::Genome scratch_;           ///< what view() gives
  mutable std::vector<std::int64_t*> slots_;  ///< the open genes' values in it
  KeySet legal_, illegal_;                    ///< those that were asked about
};

/// 0 … n − 1. Not a standard distribution: their results differ between libraries, and runs must replay everywhere.
inline std::size_t pick(std::mt19937_64& rng, std::size_t n) {
  return static_cast<std::size_t>(rng() % n);
}
/// 0 ≤ x < 1.
inline double unit(std::mt19937_64& rng) {
  return static_cast<double>(rng() >> 11U) * 0x1p-53;
}

}  // namespace planish::search
