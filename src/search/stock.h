#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "search/key_set.h"
#include "search/space.h"
#include "search/strategy.h"

namespace planish::search {

/// Legal genomes that were drawn uniformly, in compact form, to be ranked by a model. A space that is small enough is
/// walked in full instead: then what is in stock is all there is. One thread.
class Stock {
 public:
  /// Borrows the space.
  Stock(Space& space, std::uint64_t walk_up_to = 1U << 13U) : space_(space), walk_up_to_(walk_up_to) {}

  /// Draws so many more, or walks so many further. Illegal and known ones are thrown away.
  void draw(std::int64_t draws, std::mt19937_64& rng);
  /// Nothing legal is missing.
  bool complete() const { return complete_; }
  const std::vector<Code>& codes() const { return codes_; }
  std::int64_t drawn() const { return drawn_; }
  /// Takes out those for which `gone` is true.
  template <typename Gone>
  void remove(Gone gone) {
    std::erase_if(codes_, gone);
  }

 private:
  void consider(const Code& code, bool certainly);
  Space& space_;
  std::uint64_t walk_up_to_ = 0, walked_ = 0;
  bool complete_ = false;
  std::vector<Code> codes_;
  KeySet known_;
  std::int64_t drawn_ = 0;
};

/// Of genomes with their guesses: groups of alike ones (the guess within 2 %, and the same choices in the `telling`
/// positions), each represented by its best, best group first. At most `most` groups.
struct Ranked {
  Code code;
  double log_ms = 0;
};
std::vector<Ranked> cluster(std::vector<Ranked> ranked, std::span<const int> telling, std::size_t most);

}  // namespace planish::search
