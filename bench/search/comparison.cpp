#include "comparison.h"

#include <algorithm>
#include <cmath>

namespace planish::bench {
namespace {

/// Differences below this are no reason to prefer anything: a measurement is off by as much.
constexpr double alike = 0.003;
/// A difference of two means this many standard errors wide is no chance.
constexpr double errors_apart = 2;
constexpr double near_the_least = 1.02;

double quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  if (std::isinf(values[high])) return values[low];
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

Standing standing(const std::vector<Trace>& traces, int mark, double least) {
  Standing out;
  std::vector<double> ratios;
  double squares = 0;
  for (const Trace& one : traces) ratios.push_back(one.best[static_cast<std::size_t>(mark - 1)] / least);
  const double n = static_cast<double>(ratios.size());
  for (const double ratio : ratios) out.mean_log += std::log(ratio) / n;
  for (const double ratio : ratios) squares += std::pow(std::log(ratio) - out.mean_log, 2);
  out.error = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
  out.ratio = {quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75)};
  return out;
}

/// The median of how many evaluations it took to get there; 0 where half of them never did.
double median_to(const std::vector<Trace>& traces, double target) {
  std::vector<double> reached;
  for (const Trace& one : traces) {
    const auto at = std::ranges::find_if(one.best, [&](double ms) { return ms <= target; });
    reached.push_back(at == one.best.end() ? search::no_time : static_cast<double>(at - one.best.begin() + 1));
  }
  std::ranges::sort(reached);
  const double median = reached[reached.size() / 2];
  return std::isinf(median) ? 0 : median;
}

}  // namespace

Comparison compare(const Surface& surface, const std::vector<Contender>& contenders, int seeds, int evaluations) {
  Comparison out;
  out.surface = surface.name();
  out.measured = surface.measured();
  std::vector<std::vector<Trace>> traces(contenders.size());
  double least = search::no_time, random_final = 0;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::vector<double> finals;
    for (int seed = 1; seed <= seeds; ++seed) {
      traces[i].push_back(trace(surface, contenders[i], static_cast<std::uint64_t>(seed), evaluations));
      finals.push_back(traces[i].back().best.back());
      least = std::min(least, finals.back());
    }
    if (contenders[i].kind == search::StrategyKind::random) random_final = quantile(finals, 0.5);
  }
  out.least_ms = surface.floor_ms() > 0 ? surface.floor_ms() : least;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Comparison::Row row;
    row.contender = name(contenders[i]);
    for (const int mark : marks) {
      if (mark <= evaluations) row.at[mark] = standing(traces[i], mark, out.least_ms);
    }
    if (random_final > 0) row.to_random = median_to(traces[i], random_final);
    row.to_near = median_to(traces[i], out.least_ms * near_the_least);
    double seconds = 0;
    for (const Trace& one : traces[i]) {
      seconds += one.seconds;
      row.decisions = row.decisions * 0x100000001b3ULL + one.decisions;
    }
    row.ms_a_proposal = 1e3 * seconds / (seeds * evaluations);
    out.rows.push_back(std::move(row));
  }
  for (Comparison::Row& row : out.rows) {
    for (auto& [mark, mine] : row.at) {
      mine.leads = std::ranges::all_of(out.rows, [&](const Comparison::Row& other) {
        const Standing& theirs = other.at.at(mark);
        const double noise = errors_apart * std::hypot(mine.error, theirs.error);
        return mine.mean_log - theirs.mean_log <= std::max(noise, alike);
      });
    }
  }
  return out;
}

std::vector<Overall> overall(const std::vector<Comparison>& comparisons) {
  std::vector<Overall> out;
  if (comparisons.empty()) return out;
  const double n = static_cast<double>(comparisons.size());
  for (std::size_t i = 0; i < comparisons.front().rows.size(); ++i) {
    Overall one;
    one.contender = comparisons.front().rows[i].contender;
    double to_random = 0;
    for (const Comparison& comparison : comparisons) {
      const Comparison::Row& row = comparison.rows[i];
      for (const auto& [mark, standing] : row.at) {
        one.mean_ratio[mark] += standing.mean_log / n;
        one.leads[mark] += standing.leads ? 1 : 0;
      }
      const auto random = std::ranges::find(comparison.rows, "random", &Comparison::Row::contender);
      if (random == comparison.rows.end()) continue;
      // Who never gets there is counted as if at the end.
      const double last = static_cast<double>(row.at.empty() ? 1 : row.at.rbegin()->first);
      const auto to = [&](const Comparison::Row& one_of) { return one_of.to_random > 0 ? one_of.to_random : last; };
      to_random += std::log(to(row) / to(*random)) / n;
    }
    for (auto& [mark, value] : one.mean_ratio) value = std::exp(value);
    one.to_random = std::exp(to_random);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace planish::bench
