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
/// walk takes the child with the best upper confidence bound down to some depth, and what lies deeper is mostly as in
/// the best genome that was met under that node, a gene or two redrawn. What is measured counts for every node on the
/// way.
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
    int visits = 0;     ///< told
    int under_way = 0;  ///< proposed, not told
    double sum = 0;     ///< of log ms
    double best = 0;    ///< least log ms; meaningless without visits
    int champion = -1;  ///< into champions_: the best that passed under it; −1 for none
    double champion_log_ms = 0;
    std::vector<int> children;  ///< by choice; −1 where none
  };
  int child(int node, int depth, std::uint8_t choice);
  double bound(const Node& parent, int child) const;
  Code walk();
  void note(const Code& code, double log_ms, bool passed);

  Space space_;
  std::mt19937_64 rng_;
  std::deque<Code> first_;
  KeySet proposed_;
  std::vector<Node> nodes_;
  std::vector<Code> champions_;  ///< all that passed
  double least_ = 0, most_ = 0;  ///< log ms told
  bool any_ = false;
  FunnelCounts funnel_;
};

}  // namespace planish::search
