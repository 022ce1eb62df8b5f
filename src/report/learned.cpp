#include "report/learned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/json.h"
#include "model/cost_model.h"
#include "search/cell.h"
#include "search/origin.h"

namespace planish::report {
namespace {

/// A correlation of fewer says nothing.
constexpr std::size_t least_ranked = 8;

class Yields {
 public:
  Yield& of(const std::string& name) {
    const auto found = std::ranges::find(all_, name, &Yield::name);
    if (found != all_.end()) return *found;
    all_.emplace_back().name = name;
    return all_.back();
  }
  std::vector<Yield> take() { return std::move(all_); }

 private:
  std::vector<Yield> all_;
};

bool searched(const store::EvaluationRecord& record) {
  return !record.genome.empty() && record.level != "full";
}

/// Counts become shares of what all of them have.
void to_shares(std::vector<Yield>& yields) {
  std::array<double, 4> totals{};
  for (const Yield& y : yields) {
    for (std::size_t q = 0; q < totals.size(); ++q) totals[q] += y.quarters[q];
  }
  const double all = std::accumulate(totals.begin(), totals.end(), 0.0);
  for (Yield& y : yields) {
    y.share = all > 0 ? std::accumulate(y.quarters.begin(), y.quarters.end(), 0.0) / all : 0;
    for (std::size_t q = 0; q < totals.size(); ++q) y.quarters[q] = totals[q] > 0 ? y.quarters[q] / totals[q] : 0;
  }
}

Json yields_to_json(const std::vector<Yield>& yields) {
  Json out = Json::array();
  for (const Yield& y : yields)
    out.push_back({{"name", y.name},
                   {"proposed", y.proposed},
                   {"share", number_to_json(y.share)},
                   {"quarters", y.quarters},
                   {"passed", y.passed},
                   {"improved", y.improved},
                   {"gain", number_to_json(y.gain)}});
  return out;
}

std::string rows(const std::vector<Yield>& yields, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(yields.size(), most); ++i) {
    const Yield& y = yields[i];
    out += fmt::format("  {:<44} {:>6} {:>5.0f} % {:>16} {:>6} {:>8} {:>7.1f} %\n", y.name, y.proposed, 100 * y.share,
                       quarters_text(y), y.passed, y.improved, 100 * (std::exp(y.gain) - 1));
  }
  return out;
}

}  // namespace

std::string quarters_text(const Yield& yield) {
  std::string out;
  for (const double part : yield.quarters) out += fmt::format("{}{:.0f}", out.empty() ? "" : " ", 100 * part);
  return out;
}

std::vector<store::RegionRecord> evaluated_regions(std::vector<store::RegionRecord> regions,
                                                   const std::vector<store::EvaluationRecord>& records) {
  const auto untried = [&](const store::RegionRecord& region) {
    return std::ranges::find(records, region.id, &store::EvaluationRecord::region) == records.end();
  };
  if (!std::ranges::all_of(regions, untried)) std::erase_if(regions, untried);
  return regions;
}

Learned learned_from(const std::vector<store::EvaluationRecord>& records,
                     const std::vector<store::RegionRecord>& regions, const std::string& target) {
  Learned out;
  Yields operators, agents, cells_of_all;
  const auto counts = [&](const store::EvaluationRecord& record) {
    return searched(record) && std::ranges::find(regions, record.region, &store::RegionRecord::id) != regions.end();
  };
  const auto total = static_cast<std::size_t>(std::ranges::count_if(records, counts));
  // By position among all that were screened, of whatever region.
  std::vector<std::size_t> quarter(records.size());
  for (std::size_t i = 0, n = 0; i < records.size(); ++i) {
    quarter[i] = total == 0 ? 0 : std::min<std::size_t>(3, 4 * n / total);
    n += counts(records[i]) ? 1 : 0;
  }
  for (const store::RegionRecord& region : regions) {
    Learned::Region one;
    one.id = region.id;
    one.fallback_ms = region.fallback_ms;
    one.bound_ms = region.bound_ms;
    std::set<int> cells;
    std::vector<double> said, measured;
    for (std::size_t at = 0; at < records.size(); ++at) {
      const store::EvaluationRecord& record = records[at];
      if (record.region != region.id || !searched(record)) continue;
      ++one.evaluations;
      const bool passed = record.outcome == "ok" && record.median_ms > 0;
      const bool best = passed && (one.best_ms == 0 || record.median_ms < one.best_ms);
      // The first to pass is measured against PyTorch's form.
      const double before = one.best_ms > 0 ? one.best_ms : region.fallback_ms;
      const double gain = best && before > 0 ? std::max(std::log(before / record.median_ms), 0.0) : 0.0;
      const auto count = [&](Yield& yield) {
        ++yield.proposed;
        yield.quarters[quarter[at]] += 1;
        yield.passed += passed ? 1 : 0;
        yield.improved += best ? 1 : 0;
        yield.gain += gain;
      };
      const search::Origin origin = search::origin_from_text(record.proposer);
      if (!origin.by.empty()) count(operators.of(origin.by));
      if (origin.agent >= 0)
        count(agents.of(fmt::format("agent {}, {}, island {}", origin.agent, origin.focus, origin.island)));
      if (!passed) continue;
      if (record.cell >= 0 && record.cell < search::Cell::count) {
        cells.insert(record.cell);
        count(cells_of_all.of(search::text(search::Cell::at(record.cell), target)));
      }
      if (one.first_ms == 0) one.first_ms = record.median_ms;
      if (record.predicted_ms > 0) {
        said.push_back(record.predicted_ms);
        measured.push_back(record.median_ms);
      }
      if (!best) continue;
      one.best_ms = record.median_ms;
      one.to_best = one.evaluations;
      one.genome = record.genome;
      one.program = record.program;
    }
    one.cells = static_cast<std::int64_t>(cells.size());
    one.predicted = static_cast<std::int64_t>(said.size());
    if (said.size() >= least_ranked) one.rank_correlation = model::rank_correlation(said, measured);
    out.regions.push_back(std::move(one));
  }
  out.operators = operators.take();
  out.agents = agents.take();
  out.cells = cells_of_all.take();
  for (auto* yields : {&out.operators, &out.agents, &out.cells}) to_shares(*yields);
  std::ranges::stable_sort(out.cells, std::ranges::greater{}, &Yield::proposed);
  std::ranges::stable_sort(out.operators, std::ranges::greater{}, &Yield::proposed);
  std::ranges::stable_sort(out.agents, std::ranges::greater{},
                           [](const Yield& y) { return std::pair(y.gain, y.proposed); });
  return out;
}

std::string to_text(const Learned& learned) {
  std::string out;
  if (!learned.operators.empty()) {
    out += fmt::format("what proposals got and were worth\n  {:<44} {:>6} {:>7} {:>16} {:>6} {:>8} {:>9}\n{}",
                       "operator", "tried", "share", "by quarter, %", "passed", "improved", "gained",
                       rows(learned.operators, learned.operators.size()));
  }
  if (!learned.agents.empty())
    out +=
        fmt::format("  {} agents proposed; those that gained most\n{}", learned.agents.size(), rows(learned.agents, 5));
  if (!learned.cells.empty())
    out += fmt::format("  {} cells; those with most that passed\n{}", learned.cells.size(), rows(learned.cells, 5));
  for (const Learned::Region& region : learned.regions) {
    if (region.evaluations == 0) continue;
    out += fmt::format("region {}: {} screened, {} cells filled", region.id, region.evaluations, region.cells);
    if (region.best_ms > 0)
      out += fmt::format(", the fastest ({:.4g} ms) was number {}", region.best_ms, region.to_best);
    if (region.rank_correlation)
      out += fmt::format("; the cost model's order correlates {:.2f} with {} times", *region.rank_correlation,
                         region.predicted);
    out += "\n";
  }
  return out;
}

std::string to_json(const Learned& learned) {
  Json regions = Json::array();
  for (const Learned::Region& r : learned.regions)
    regions.push_back({{"id", r.id},
                       {"evaluations", r.evaluations},
                       {"to_best", r.to_best},
                       {"cells", r.cells},
                       {"first_ms", number_to_json(r.first_ms)},
                       {"best_ms", number_to_json(r.best_ms)},
                       {"fallback_ms", number_to_json(r.fallback_ms)},
                       {"bound_ms", number_to_json(r.bound_ms)},
                       {"genome", r.genome},
                       {"program", r.program},
                       {"predicted", r.predicted},
                       {"rank_correlation", r.rank_correlation ? Json(*r.rank_correlation) : Json(nullptr)}});
  return dump_json({{"operators", yields_to_json(learned.operators)},
                    {"agents", yields_to_json(learned.agents)},
                    {"cells", yields_to_json(learned.cells)},
                    {"regions", std::move(regions)}});
}

}  // namespace planish::report
