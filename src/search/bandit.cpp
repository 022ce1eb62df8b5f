#include "search/bandit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "search/space.h"

namespace planish::search {
namespace {

constexpr double fade = 0.985;
/// An arm's own mean counts against the mean of all as if this many tries of that had been made.
constexpr double doubt = 4;
/// An arm is worth at least this part, and at most this multiple, of an average one.
constexpr double least_ratio = 0.15, most_ratio = 6;

}  // namespace

Bandit::Bandit(std::vector<double> priors, double floor) : floor_(floor) {
  const double total = std::accumulate(priors.begin(), priors.end(), 0.0);
  for (const double prior : priors)
    arms_.push_back({total > 0 ? prior / total : 1.0 / static_cast<double>(priors.size()), 0, 0});
}

std::vector<double> Bandit::shares() const {
  std::vector<double> out;
  out.reserve(arms_.size());
  const double mean = tried_ > 0 ? sum_ / tried_ : 0;
  double total = 0;
  for (const Arm& arm : arms_) {
    double ratio = 1;
    if (mean > 0) ratio = std::clamp((arm.sum + doubt * mean) / (arm.tried + doubt) / mean, least_ratio, most_ratio);
    out.push_back(arm.prior * ratio);
    total += out.back();
  }
  for (double& share : out)
    share = (total > 0 ? (1 - floor_) * share / total : 0) + floor_ / static_cast<double>(arms_.size());
  return out;
}

int Bandit::choose(std::mt19937_64& rng) const {
  return pick_weighted(rng, shares());
}

void Bandit::reward(int arm, double value) {
  for (Arm& one : arms_) {
    one.tried *= fade;
    one.sum *= fade;
  }
  tried_ = tried_ * fade + 1;
  sum_ = sum_ * fade + value;
  arms_[static_cast<std::size_t>(arm)].tried += 1;
  arms_[static_cast<std::size_t>(arm)].sum += value;
}

int pick_weighted(std::mt19937_64& rng, std::span<const double> weights) {
  double left = unit(rng) * std::accumulate(weights.begin(), weights.end(), 0.0);
  int last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = static_cast<int>(i);
    left -= weights[i];
    if (left < 0) return last;
  }
  return last;
}

}  // namespace planish::search
