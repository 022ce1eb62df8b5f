#include "cli/learned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "model/cost_model.h"
#include "search/origin.h"

namespace planish::cli {
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

Json yields_to_json(const std::vector<Yield>& yields) {
  Json out = Json::array();
  for (const Yield& y : yields)
    out.push_back({{"name", y.name},
                   {"proposed", y.proposed},
                   {"passed", y.passed},
                   {"improved", y.improved},
                   {"gain", number_to_json(y.gain)}});
  return out;
}

std::string rows(const std::vector<Yield>& yields, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(yields.size(), most); ++i) {
    const Yield& y = yields[i];
    out += fmt::format("  {:<34} {:>6} {:>6} {:>8} {:>7.1f} %\n", y.name, y.proposed, y.passed, y.improved,
                       100 * (std::exp(y.gain) - 1));
  }
  return out;
}

}  // namespace

Learned learned_from(const std::vector<store::EvaluationRecord>& records,
                     const std::vector<store::RegionRecord>& regions) {
  Learned out;
  Yields operators, agents;
  for (const store::RegionRecord& region : regions) {
    Learned::Region one;
    one.id = region.id;
    one.fallback_ms = region.fallback_ms;
    one.bound_ms = region.bound_ms;
    std::set<int> cells;
    std::vector<double> said, measured;
    for (const auto& record : records) {
      if (record.region != region.id || record.genome.empty() || record.level == "full") continue;
      ++one.evaluations;
      const bool passed = record.outcome == "ok" && record.median_ms > 0;
      const bool best = passed && (one.best_ms == 0 || record.median_ms < one.best_ms);
      // The first to pass is measured against PyTorch's form.
      const double before = one.best_ms > 0 ? one.best_ms : region.fallback_ms;
      const double gain = best && before > 0 ? std::max(std::log(before / record.median_ms), 0.0) : 0.0;
      const auto count = [&](Yield& yield) {
        ++yield.proposed;
        yield.passed += passed ? 1 : 0;
        yield.improved += best ? 1 : 0;
        yield.gain += gain;
      };
      const search::Origin origin = search::origin_from_text(record.proposer);
      if (!origin.by.empty()) count(operators.of(origin.by));
      if (origin.agent >= 0)
        count(agents.of(fmt::format("agent {}, {}, island {}", origin.agent, origin.focus, origin.island)));
      if (!passed) continue;
      if (record.cell >= 0) cells.insert(record.cell);
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
  std::ranges::stable_sort(out.operators, std::ranges::greater{}, &Yield::proposed);
  std::ranges::stable_sort(out.agents, std::ranges::greater{},
                           [](const Yield& y) { return std::pair(y.gain, y.proposed); });
  return out;
}

std::string to_text(const Learned& learned) {
  std::string out;
  if (!learned.operators.empty()) {
    out += fmt::format("what proposals were worth\n  {:<34} {:>6} {:>6} {:>8} {:>9}\n{}", "operator", "tried", "passed",
                       "improved", "gained", rows(learned.operators, learned.operators.size()));
  }
  if (!learned.agents.empty())
    out +=
        fmt::format("  {} agents proposed; those that gained most\n{}", learned.agents.size(), rows(learned.agents, 5));
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
                    {"regions", std::move(regions)}});
}

}  // namespace planish::cli
