#include "search/fusion_plans.h"

#include <algorithm>
#include <utility>

namespace planish::search {
namespace {

/// Evaluations after which a region's best is something to measure ways against: about its first guesses.
constexpr std::int64_t settled_after = 12;
/// A way that may save this part even of what the regions in its place may still come to is tried at once, among the
/// first: schedules of large products take long to evaluate, and a short budget would be over before a kernel less was
/// ever tried.
constexpr double saves_much = 0.25;
/// Proposals that all failed, after which a region is given up.
constexpr std::int64_t hopeless_after = 12;

/// So many first guesses must be seen before a region's best says anything of what it will come to.
constexpr std::int64_t guesses_first = 6;

/// The part of its best time that a region may still lose after so many evaluations: a fifth after six, a tenth after
/// sixteen. Searches of regions have been seen to go about so (docs/results/search).
double may_lose(std::int64_t told) {
  return 0.5 / (1 + static_cast<double>(told) / 4);
}

double least(const RegionSpec& spec) {
  return spec.bound_ms + spec.launch_ms;
}

/// What a region that was measured may come to.
double may_reach(const RegionSpec& spec, const Standing& s) {
  if (s.done) return s.best_ms;
  return std::min(s.best_ms, std::max(least(spec), s.best_ms * (1 - may_lose(s.told))));
}

}  // namespace

bool FusionPlans::well_known(const FusionPlan& fusion, const std::vector<Standing>& standings, double hoped) const {
  double reached = 0;
  bool settled = true;
  for (const FusionPlan::Use& use : fusion.replaces) {
    const Standing& s = standings[use.region];
    settled = settled && (s.told >= settled_after || s.done);
    // Before it was measured its time is PyTorch's, and says nothing of what it may come to.
    const bool measured = s.told > 0 || s.done;
    reached += (measured ? may_reach((*specs_)[use.region], s) : least((*specs_)[use.region])) * use.times;
  }
  return settled || hoped <= (1 - saves_much) * (reached + fusion.beside_ms);
}

std::optional<double> FusionPlans::promise(const FusionPlan& fusion, const std::vector<Standing>& standings) const {
  const double before = replaced_ms(fusion, standings);
  if (before == no_time) return std::nullopt;
  // What was found may be below what should be the least (data that stay in a cache): others may be as well, then.
  double bound = 0;
  for (const FusionPlan::Use& use : fusion.replaces) bound += least((*specs_)[use.region]) * use.times;
  const double scale = bound > 0 ? std::min(1.0, before / bound) : 1.0;
  double hoped = 0;
  for (const FusionPlan::Use& use : fusion.by) {
    const Standing& s = standings[use.region];
    double hope = scale * least((*specs_)[use.region]);
    if (s.best_ms == no_time) {
      if (s.done || s.told >= hopeless_after) return std::nullopt;
    } else if (s.done) {
      hope = s.best_ms;
    } else if (s.told >= guesses_first) {
      hope = std::max(hope, s.best_ms * (1 - may_lose(s.told)));
    }
    hoped += hope * use.times;
  }
  if (hoped >= before || !well_known(fusion, standings, hoped)) return std::nullopt;
  return before - hoped;
}

std::optional<double> FusionPlans::promise(std::size_t region, const std::vector<Standing>& standings) const {
  std::optional<double> most;
  for (const FusionPlan& fusion : fusions_) {
    if (std::ranges::find(fusion.by, region, &FusionPlan::Use::region) == fusion.by.end()) continue;
    if (const auto one = promise(fusion, standings); one && (!most || *one > *most)) most = one;
  }
  return most;
}

double FusionPlans::replaced_ms(const FusionPlan& fusion, const std::vector<Standing>& standings) {
  double total = fusion.beside_ms;
  for (const FusionPlan::Use& use : fusion.replaces) total += standings[use.region].best_ms * use.times;
  return total;
}

std::optional<double> FusionPlans::gain(const FusionPlan& fusion, const std::vector<Standing>& standings) const {
  double total = replaced_ms(fusion, standings);
  if (total == no_time) return std::nullopt;
  for (const FusionPlan::Use& use : fusion.by) {
    const double ms = standings[use.region].best_ms;
    if (ms == no_time) return std::nullopt;
    total -= ms * use.times;
  }
  return total;
}

std::vector<std::size_t> FusionPlans::worth(const std::vector<Standing>& standings, double part) const {
  std::vector<std::pair<double, std::size_t>> rank;
  for (std::size_t w = 0; w < fusions_.size(); ++w) {
    const auto gained = gain(fusions_[w], standings);
    if (!gained) continue;
    if (*gained > -part * replaced_ms(fusions_[w], standings)) rank.emplace_back(-*gained, w);
  }
  std::ranges::sort(rank);
  std::vector<std::size_t> taken, replaced, wholes;
  for (const auto& [loss, w] : rank) {
    if (fusions_[w].whole) {
      wholes.push_back(w);
      continue;
    }
    const bool free = std::ranges::none_of(fusions_[w].replaces, [&](const FusionPlan::Use& use) {
      return std::ranges::find(replaced, use.region) != replaced.end();
    });
    if (!free) continue;
    for (const FusionPlan::Use& use : fusions_[w].replaces) replaced.push_back(use.region);
    taken.push_back(w);
  }
  taken.insert(taken.end(), wholes.begin(), wholes.end());
  return taken;
}

}  // namespace planish::search
