#pragma once

#include <cstdint>
#include <vector>

/// What is said of a set of time samples. Pure functions; units are those of the samples.
namespace planish::rt {

struct Summary {
  double median = 0, lo = 0, hi = 0;  ///< lo and hi: the 95 % interval of the median
  bool bounded = false;  ///< false with fewer than six samples: no order statistics cover the median with 95 %
};

/// 1-based position k such that [x(k), x(n+1-k)] of n sorted samples covers the true median with at least 95 %,
/// whatever the distribution is (the number of samples below the median is binomial); 0 when n is too small.
std::int64_t interval_rank(std::int64_t n);

/// Median and interval. NaN samples are not allowed; no samples give zeros.
Summary summarise(std::vector<double> samples);

/// True when the interval is known and both ends lie within `fraction` of the median.
bool settled(const Summary& summary, double fraction);

}  // namespace planish::rt
