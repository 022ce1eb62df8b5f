#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace planish::llm {

/// Chooses among models by what they achieve for what they cost (Thompson sampling of success over mean cost). Every
/// choice follows from the seed and the order of calls alone. Not thread-safe: the one who schedules asks it.
class CostBandit {
 public:
  CostBandit(std::size_t arms, std::uint64_t seed);
  /// All arms that may be used, the best draw first; the rest are who to fall back on. One choice in twenty is any.
  std::vector<std::size_t> rank();
  /// `reward` from 0 (of no use) to 1. `cost` in any unit, the same for all arms.
  void tell(std::size_t arm, double reward, double cost);
  /// Not chosen any more (a refused key, an empty account). When all are out, all are in again.
  void bench(std::size_t arm);
  bool benched(std::size_t arm) const { return arms_[arm].benched; }
  double mean_reward(std::size_t arm) const;
  double mean_cost(std::size_t arm) const;
  std::int64_t told(std::size_t arm) const { return arms_[arm].count; }

 private:
  struct Arm {
    std::int64_t count = 0;
    double reward = 0, cost = 0;
    bool benched = false;
  };
  double beta(double a, double b);
  double gamma(double shape);
  double uniform();
  std::vector<Arm> arms_;
  std::mt19937_64 rng_;
};

}  // namespace planish::llm
