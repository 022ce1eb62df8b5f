#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "comparison.h"

namespace planish::bench {
namespace {

std::string count(double evaluations) {
  return evaluations > 0 ? fmt::format("{:.0f}", evaluations) : "never";
}

double rounded(double value) {
  return std::stod(fmt::format("{:.5g}", value));
}

}  // namespace

std::string to_text(const Comparison& comparison) {
  std::string out = fmt::format("\n{} ({}), least {:.5g} ms; * none is better beyond noise\n", comparison.surface,
                                comparison.measured ? "measured" : "synthetic", comparison.least_ms);
  if (comparison.rows.empty()) return out;
  out += fmt::format("  {:<18}", "strategy");
  for (const auto& [mark, standing] : comparison.rows.front().at)
    out += fmt::format("{:^24}", fmt::format("at {}", mark));
  out += fmt::format("  {:>9} {:>7} {:>8}\n", "to random", "to 2 %", "ms a one");
  for (const Comparison::Row& row : comparison.rows) {
    out += fmt::format("  {:<18}", row.contender);
    for (const auto& [mark, standing] : row.at) {
      const Spread& ratio = standing.ratio;
      out += fmt::format(" {}{:.3f} [{:.3f}, {:.3f}]", standing.leads ? '*' : ' ', ratio.median, ratio.low, ratio.high);
    }
    out += fmt::format("  {:>9} {:>7} {:>8.3f}\n", count(row.to_random), count(row.to_near), row.ms_a_proposal);
  }
  return out;
}

std::string to_text(const std::vector<Overall>& overalls, std::size_t surfaces) {
  std::string out = fmt::format(
      "\nover all {}: geometric mean of best found over least (on how many it leads); evaluations to random's result, "
      "over random's\n",
      surfaces);
  for (const Overall& one : overalls) {
    out += fmt::format("  {:<18}", one.contender);
    for (const auto& [mark, ratio] : one.mean_ratio)
      out += fmt::format("  at {}: {:.4f} ({})", mark, ratio, one.leads.at(mark));
    out += fmt::format("  {:.2f}\n", one.to_random);
  }
  return out;
}

std::string to_json(const std::vector<Comparison>& comparisons, int seeds, int evaluations) {
  using nlohmann::json;
  json out = {{"schema", "planish.search_comparison/1"}, {"seeds", seeds}, {"evaluations", evaluations}};
  for (const Comparison& comparison : comparisons) {
    json rows = json::object();
    for (const Comparison::Row& row : comparison.rows) {
      json one = {
          {"to_random", row.to_random}, {"to_near", row.to_near}, {"decisions", fmt::format("{:016x}", row.decisions)}};
      for (const auto& [mark, standing] : row.at) {
        const Spread& ratio = standing.ratio;
        one["at"][std::to_string(mark)] = {{"ratio", {rounded(ratio.low), rounded(ratio.median), rounded(ratio.high)}},
                                           {"mean_log", rounded(standing.mean_log)},
                                           {"error", rounded(standing.error)},
                                           {"leads", standing.leads}};
      }
      rows[row.contender] = std::move(one);
    }
    out["surfaces"].push_back({{"name", comparison.surface},
                               {"measured", comparison.measured},
                               {"least_ms", rounded(comparison.least_ms)},
                               {"strategies", std::move(rows)}});
  }
  for (const Overall& one : overall(comparisons)) {
    json ratios, leads;
    for (const auto& [mark, ratio] : one.mean_ratio) ratios[std::to_string(mark)] = rounded(ratio);
    for (const auto& [mark, times] : one.leads) leads[std::to_string(mark)] = times;
    out["overall"][one.contender] = {{"mean_ratio", ratios}, {"leads", leads}, {"to_random", rounded(one.to_random)}};
  }
  return out.dump(1);
}

}  // namespace planish::bench
