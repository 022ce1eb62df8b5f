#include "session/winners.h"

namespace planish::session {

std::vector<Choice> winners(const search::Search& search, const std::vector<std::size_t>& fusions) {
  const auto& specs = search.specs();
  std::vector<int> count;
  for (const search::RegionSpec& spec : specs) count.push_back(spec.alternative ? 0 : spec.count);
  std::vector<double> instead(specs.size(), 0);  ///< what a region of a way stands for, ms
  const auto standings = search.standings(true);
  for (const std::size_t w : fusions) {
    const search::FusionPlan& fusion = search.fusions().all()[w];
    const double before = search::FusionPlans::replaced_ms(fusion, standings);
    for (const auto& use : fusion.replaces) count[use.region] -= use.times;
    for (const auto& use : fusion.by) {
      count[use.region] += use.times;
      instead[use.region] += before;
    }
  }
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& winner = search.region(i).winner();
    if (!winner || count[i] <= 0) continue;
    const search::RegionSpec& spec = specs[i];
    const double before = spec.alternative ? instead[i] : spec.fallback_ms;
    if (winner->ms >= spec.fallback_ms) continue;
    choices.push_back({spec.id, winner->proposal, (before - winner->ms) * count[i],
                       without_approximations(*spec.domain, winner->proposal)});
  }
  return choices;
}

}  // namespace planish::session
