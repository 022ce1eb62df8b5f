#include "evaluate/gain.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace planish {
namespace {

/// The position k (from 0) so that the k-th least and the k-th greatest of n values hold their true median with 95 %,
/// whatever its distribution is: how many lie below is binomial. 0, the extremes, where n is too small for that.
std::size_t interval_position(std::size_t n) {
  double probability = std::exp2(-static_cast<double>(n)), below = 0;
  for (std::size_t k = 0; k < n; ++k) {
    below += probability;
    if (below > 0.025) return k > 0 ? k - 1 : 0;
    probability *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return 0;
}

}  // namespace

MeasuredTime measured(std::vector<double> samples_ms) {
  if (samples_ms.empty()) return {};
  std::ranges::sort(samples_ms);
  const std::size_t n = samples_ms.size(), middle = n / 2, k = interval_position(n);
  const double median = n % 2 == 1 ? samples_ms[middle] : (samples_ms[middle - 1] + samples_ms[middle]) / 2;
  return {median, samples_ms[k], samples_ms[n - 1 - k]};
}

double Gain::claimed() const {
  if (!differs()) return 1;
  if (hi - lo <= noisy_share * ratio) return ratio;
  return lo > 1 ? lo : hi;
}

std::optional<Gain> gain_of(const MeasuredTime& baseline, const MeasuredTime& own) {
  if (!(baseline.median_ms > 0) || !(own.median_ms > 0)) return std::nullopt;
  const double ratio = baseline.median_ms / own.median_ms;
  // A time without an interval is as good as its median.
  const auto low = [](const MeasuredTime& t) { return t.lo_ms > 0 ? t.lo_ms : t.median_ms; };
  const auto high = [](const MeasuredTime& t) { return t.hi_ms > 0 ? t.hi_ms : t.median_ms; };
  return Gain{ratio, std::min(ratio, low(baseline) / high(own)), std::max(ratio, high(baseline) / low(own))};
}

std::optional<Gain> gain_in_turn(std::span<const Round> rounds, double apart) {
  std::vector<double> ratios;
  for (const Round& round : rounds) {
    if (round.baseline_ms > 0 && round.own_ms > 0) ratios.push_back(round.baseline_ms / round.own_ms);
  }
  if (ratios.empty()) return std::nullopt;
  const MeasuredTime of_ratios = measured(std::move(ratios));
  return Gain{of_ratios.median_ms, of_ratios.lo_ms / (1 + apart), of_ratios.hi_ms * (1 + apart)};
}

Gain chained(const Gain& first, const Gain& second) {
  return {first.ratio * second.ratio, first.lo * second.lo, first.hi * second.hi};
}

Gain lesser(const Gain& one, const Gain& other) {
  return {std::min(one.ratio, other.ratio), std::min(one.lo, other.lo), std::min(one.hi, other.hi)};
}

Gain hull(const Gain& one, const Gain& other) {
  return {std::sqrt(one.ratio * other.ratio), std::min(one.lo, other.lo), std::max(one.hi, other.hi)};
}

}  // namespace planish
