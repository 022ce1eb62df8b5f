#include "llm/bandit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planish::llm {

CostBandit::CostBandit(std::size_t arms, std::uint64_t seed) : arms_(arms), rng_(seed) {}

// The distributions of the standard library differ between implementations; these do not.
double CostBandit::uniform() {
  return (static_cast<double>(rng_() >> 11U) + 0.5) * 0x1p-53;
}

/// Marsaglia and Tsang's method; shapes are at least 1 here.
double CostBandit::gamma(double shape) {
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double normal = std::sqrt(-2.0 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
    const double v = std::pow(1.0 + c * normal, 3.0);
    if (v <= 0) continue;
    if (std::log(uniform()) < 0.5 * normal * normal + d - d * v + d * std::log(v)) return d * v;
  }
}

double CostBandit::beta(double a, double b) {
  const double x = gamma(a);
  return x / (x + gamma(b));
}

double CostBandit::mean_reward(std::size_t arm) const {
  return arms_[arm].count == 0 ? 0.0 : arms_[arm].reward / static_cast<double>(arms_[arm].count);
}

double CostBandit::mean_cost(std::size_t arm) const {
  return arms_[arm].count == 0 ? 0.0 : arms_[arm].cost / static_cast<double>(arms_[arm].count);
}

std::vector<std::size_t> CostBandit::rank() {
  if (std::ranges::all_of(arms_, &Arm::benched)) {
    for (Arm& arm : arms_) arm.benched = false;
  }
  double sum = 0;
  std::int64_t count = 0;
  for (const Arm& arm : arms_) sum += arm.cost, count += arm.count;
  // Who was never asked is taken to cost what a call does on average. A tenth of that is what a seat's time is worth: a
  // model that is free and of no use is no bargain.
  const double average = count == 0 ? 0.0 : sum / static_cast<double>(count);
  std::vector<double> draws(arms_.size(), -1);
  for (std::size_t i = 0; i < arms_.size(); ++i) {
    const Arm& arm = arms_[i];
    // Drawn for benched ones as well: who is benched does not change what the others draw.
    const double success = beta(1.0 + arm.reward, 1.0 + static_cast<double>(arm.count) - arm.reward);
    const double cost = (arm.count == 0 ? average : mean_cost(i)) + 0.1 * average;
    if (!arm.benched) draws[i] = average > 0 ? success / cost : success;
  }
  const bool any = uniform() < 0.05;
  const double which = uniform();
  std::vector<std::size_t> order(arms_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::size_t i) { return arms_[i].benched; });
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return draws[a] > draws[b]; });
  if (any && !order.empty()) {
    const auto place = static_cast<std::ptrdiff_t>(which * static_cast<double>(order.size()));
    std::rotate(order.begin(), order.begin() + place, order.begin() + place + 1);
  }
  return order;
}

void CostBandit::tell(std::size_t arm, double reward, double cost) {
  Arm& told = arms_[arm];
  ++told.count;
  told.reward += std::clamp(reward, 0.0, 1.0);
  told.cost += std::max(0.0, cost);
}

void CostBandit::bench(std::size_t arm) {
  arms_[arm].benched = true;
}

}  // namespace planish::llm
