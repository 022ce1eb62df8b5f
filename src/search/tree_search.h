#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <unordered_map>
#include <vector>

#include "search/key_set.h"
#include "search/space.h"
#include "search/strategy.h"

namespace planish::search {

/// Best-first search over partial genomes. A node has decided the first k genes; its children decide the next one. The
/// walk takes the child with the best upper confidence bound, draws the rest, and what is measured counts for every
/// node on the way.
class TreeSearch : public Strategy {
 public:
  explicit TreeSearch(const StrategyContext& context);
  std::optional<codegen::Genome> propose() override;
  void tell(const codegen::Genome& genome, const Told& told) override;
  void tell_duplicate(const codegen::Genome&) override {}
  void tell_again(const codegen::Genome&, const Told&) override {}
  FunnelCounts funnel() const override { return funnel_; }

 private:
  struct Node {
    int visits = 0;             ///< told
    int under_way = 0;          ///< proposed, not told
    double sum = 0;             ///< of log ms
    double best = 0;            ///< least log ms; meaningless without visits
    std::vector<int> children;  ///< by choice; −1 where none
  };
  int child(int node, int depth, std::uint8_t choice);
  double bound(const Node& parent, int child) const;
  std::optional<Code> walk();
  void note(const Code& code, double log_ms);

  Space space_;
  std::mt19937_64 rng_;
  std::deque<Code> first_;
  KeySet proposed_;
  std::vector<Node> nodes_;
  double least_ = 0, most_ = 0;  ///< log ms told
  bool any_ = false;
  FunnelCounts funnel_;
};

}  // namespace planish::search
