#pragma once

#include <deque>
#include <random>
#include <set>

#include "search/strategy.h"

namespace planish::search {

/// Strategies that learn nothing: what every other one must beat.

/// The coder's first guesses, then uniform draws from the legal genomes.
class RandomSearch : public Strategy {
 public:
  explicit RandomSearch(const StrategyContext& context);
  std::optional<codegen::Genome> propose() override;
  void tell(const codegen::Genome&, const Told&) override {}
  void tell_duplicate(const codegen::Genome&) override {}
  void tell_again(const codegen::Genome&, const Told&) override {}
  FunnelCounts funnel() const override { return funnel_; }

 protected:
  /// One draw, with its origin; may be one that was seen.
  virtual codegen::Genome draw();
  std::shared_ptr<const coder::Domain> domain_;
  std::mt19937_64 rng_;

 private:
  std::deque<codegen::Genome> first_;
  std::set<codegen::Genome> proposed_;
  FunnelCounts funnel_;
};

/// Best of N independent draws: each takes one of the coder's guesses, the better ones more often, and redraws a few of
/// its genes. No draw knows of another.
class Sample : public RandomSearch {
 public:
  explicit Sample(const StrategyContext& context);

 private:
  codegen::Genome draw() override;
  std::vector<codegen::Genome> guesses_;
};

}  // namespace planish::search
