#include "session/search_report.h"

#include <algorithm>
#include <utility>

#include "coder/proposal.h"

namespace planish::session {
namespace {

void report_regions(const search::Search& search, ResultDocument& result) {
  for (std::size_t i = 0; i < search.specs().size(); ++i) {
    const search::RegionSpec& spec = search.specs()[i];
    const auto& winner = search.region(i).winner();
    const auto row = std::ranges::find(result.regions, spec.id, &ResultDocument::Region::id);
    for (const search::Elite& elite : search.region(i).archive().elites())
      row->cells.emplace_back(search::text(elite.cell, result.target), elite.ms);
    row->bound_ms = spec.bound_ms;
    row->tried = search.region(i).told();
    row->fallback_ms = spec.fallback_ms == search::no_time ? 0 : spec.fallback_ms;
    const bool unknown = search.region(i).told() == 0 && spec.fallback_ms == search::no_time;
    if (spec.alternative && unknown) result.regions.erase(row);
    if (!winner) continue;
    row->best_ms = winner->ms;
    row->genome = coder::text(winner->proposal);
  }
}

std::map<std::size_t, std::size_t> report_ways(const search::Search& search, ResultDocument& result) {
  std::map<std::size_t, std::size_t> rows;
  const auto standings = search.standings(true);
  for (const search::FusionPlan& fusion : search.fusions().all()) {
    const auto tried = std::ranges::any_of(
        fusion.by, [&](const search::FusionPlan::Use& use) { return standings[use.region].told > 0; });
    if (!tried && !search.fusions().gain(fusion, standings)) continue;
    ResultDocument::FusionPlan row;
    row.before_ms = search::FusionPlans::replaced_ms(fusion, standings);
    for (const search::FusionPlan::Use& use : fusion.replaces)
      row.replaces.emplace_back(search.specs()[use.region].id, use.times);
    for (const search::FusionPlan::Use& use : fusion.by) row.by.emplace_back(search.specs()[use.region].id, use.times);
    if (const auto gain = search.fusions().gain(fusion, standings)) row.after_ms = row.before_ms - *gain;
    rows.emplace(static_cast<std::size_t>(&fusion - search.fusions().all().data()), result.fusions.size());
    result.fusions.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::map<std::size_t, std::size_t> report_search(const search::Search& search, ResultDocument& result) {
  report_regions(search, result);
  return report_ways(search, result);
}

void report_whole(const Whole& whole, const std::map<std::size_t, std::size_t>& way_rows, ResultDocument& result) {
  for (ResultDocument::Region& row : result.regions) {
    const auto found = whole.used.find(row.id);
    row.used = found != whole.used.end();
    if (row.used) row.genome = coder::text(found->second.proposal);
  }
  for (ResultDocument::FusionPlan& row : result.fusions) row.used = false;
  for (const std::size_t way : whole.fusions) result.fusions[way_rows.at(way)].used = true;
}

}  // namespace planish::session
