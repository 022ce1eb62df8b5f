#include "session/winners.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/passes.h"

namespace planish::session {
namespace {

/// How often each region stands in the task cut with these ways.
std::vector<int> counts(const search::Search& search, const std::vector<std::size_t>& fusions) {
  std::vector<int> count;
  for (const search::RegionSpec& spec : search.specs()) count.push_back(spec.alternative ? 0 : spec.count);
  for (const std::size_t w : fusions) {
    for (const auto& use : search.fusions().all()[w].replaces) count[use.region] -= use.times;
    for (const auto& use : search.fusions().all()[w].by) count[use.region] += use.times;
  }
  return count;
}

/// Where nothing has passed. Where something was tried, and all of that rounded factors, rounding may be why it failed;
/// where other guesses failed as well, one more would most likely take all others' with it.
std::optional<coder::Proposal> first_guess(const coder::Domain& domain, const search::RegionSearch& region,
                                           Untried which) {
  if (which == Untried::none) return std::nullopt;
  const bool rounding_failed = region.told() > 0;
  const auto may_round = [](const auto& proposed) {
    const auto* genome = coder::genome_of(proposed.first);
    return genome != nullptr && codegen::rounds_factors(*genome);
  };
  if (rounding_failed && !std::ranges::all_of(region.proposals(), may_round)) return std::nullopt;
  const bool exact = which == Untried::exact || rounding_failed;
  for (codegen::Genome guess : domain.seeds()) {
    if (exact && codegen::rounds_factors(guess)) continue;
    if (codegen::gene(guess, "fast", 0) != 0) guess["fast"] = 0;
    if (domain.legal(guess)) return guess;
  }
  return std::nullopt;
}

/// The best of a region's that passed without rounding its factors, in its exact form, where `chosen` rounds them.
std::optional<coder::Proposal> unrounded(const coder::Domain& domain, const search::RegionSearch& region,
                                         const coder::Proposal& chosen) {
  const auto* genome = coder::genome_of(chosen);
  if (genome == nullptr || !codegen::rounds_factors(*genome)) return std::nullopt;
  for (const auto& passed : region.ranking()) {
    const auto* other = coder::genome_of(passed.proposal);
    if (other == nullptr || codegen::rounds_factors(*other)) continue;
    auto exact = without_approximations(domain, passed.proposal);
    return exact ? exact : passed.proposal;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Choice> winners(const search::Search& search, const std::vector<std::size_t>& fusions) {
  const auto& specs = search.specs();
  const std::vector<int> count = counts(search, fusions);
  std::vector<double> instead(specs.size(), 0);  ///< what a region of a way stands for, ms
  const auto standings = search.standings(true);
  for (const std::size_t w : fusions) {
    const search::FusionPlan& fusion = search.fusions().all()[w];
    const double before = search::FusionPlans::replaced_ms(fusion, standings);
    for (const auto& use : fusion.by) instead[use.region] += before;
  }
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& winner = search.region(i).winner();
    if (!winner || count[i] <= 0) continue;
    const search::RegionSpec& spec = specs[i];
    const double before = spec.alternative ? instead[i] : spec.fallback_ms;
    if (winner->ms >= spec.fallback_ms) continue;
    choices.push_back({spec.id, winner->proposal, (before - winner->ms) * count[i],
                       without_approximations(*spec.domain, winner->proposal),
                       unrounded(*spec.domain, search.region(i), winner->proposal)});
  }
  return choices;
}

std::vector<Choice> with_the_rest(const search::Search& search, const std::vector<std::size_t>& fusions,
                                  std::vector<Choice> choices, Untried untried) {
  const std::vector<int> count = counts(search, fusions);
  for (std::size_t i = 0; i < search.specs().size(); ++i) {
    const search::RegionSpec& spec = search.specs()[i];
    if (count[i] <= 0 || spec.sources_only || std::ranges::find(choices, spec.id, &Choice::region) != choices.end())
      continue;
    const auto& winner = search.region(i).winner();
    const auto proposal =
        winner ? std::optional(winner->proposal) : first_guess(*spec.domain, search.region(i), untried);
    if (!proposal) continue;
    choices.push_back({spec.id, *proposal, 0, without_approximations(*spec.domain, *proposal),
                       unrounded(*spec.domain, search.region(i), *proposal)});
  }
  return choices;
}

}  // namespace planish::session
