#pragma once

#include <random>
#include <span>
#include <vector>

namespace planish::search {

/// Chooses among arms in proportion to prior × recent reward, with a floor for all. Rewards need no scale: only their
/// ratios count. Old rewards fade, because what pays changes as a search goes on. One thread.
class Bandit {
 public:
  /// `floor`: the part of all choices that is spread evenly, whatever was learned.
  explicit Bandit(std::vector<double> priors, double floor = 0.2);
  int choose(std::mt19937_64& rng) const;
  /// The probability of each arm; the sum is 1.
  std::vector<double> shares() const;
  /// Reward ≥ 0 for having chosen `arm`.
  void reward(int arm, double value);
  std::size_t size() const { return arms_.size(); }

 private:
  struct Arm {
    double prior = 1, tried = 0, sum = 0;
  };
  std::vector<Arm> arms_;
  double floor_ = 0.2;
  double tried_ = 0, sum_ = 0;
};

/// Index by weight. Weights ≥ 0; where all are zero the first.
int pick_weighted(std::mt19937_64& rng, std::span<const double> weights);

}  // namespace planish::search
