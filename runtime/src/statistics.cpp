#include "statistics.h"

#include <algorithm>
#include <cmath>

namespace planish::rt {

std::int64_t interval_rank(std::int64_t n) {
  if (n < 6) return 0;
  if (n > 1000) {  // 1.96 standard deviations of the binomial, rounded outwards
    return static_cast<std::int64_t>(std::floor(static_cast<double>(n) / 2 - 0.98 * std::sqrt(static_cast<double>(n))));
  }
  const double log_half_n = static_cast<double>(n) * std::log(0.5);
  double log_choose = 0, below = 0;  // below = P(X <= k) for X ~ B(n, 1/2)
  std::int64_t k = 0;
  for (;; ++k) {
    below += std::exp(log_choose + log_half_n);
    if (below > 0.025) return k;
    log_choose += std::log(static_cast<double>(n - k)) - std::log(static_cast<double>(k + 1));
  }
}

Summary summarise(std::vector<double> samples) {
  Summary out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  out.median = n % 2 == 1 ? samples[n / 2] : 0.5 * (samples[n / 2 - 1] + samples[n / 2]);
  const std::int64_t rank = interval_rank(static_cast<std::int64_t>(n));
  out.bounded = rank > 0;
  const std::size_t low = rank > 0 ? static_cast<std::size_t>(rank - 1) : 0;
  out.lo = samples[low];
  out.hi = samples[n - 1 - low];
  return out;
}

bool settled(const Summary& summary, double fraction) {
  return summary.bounded && summary.lo >= summary.median * (1 - fraction) &&
         summary.hi <= summary.median * (1 + fraction);
}

}  // namespace planish::rt
