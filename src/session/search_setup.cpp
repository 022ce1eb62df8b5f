#include "session/search_setup.h"

#include <algorithm>
#include <utility>

namespace planish::session {
namespace {

/// First guesses taken from earlier runs. Each costs an evaluation.
constexpr std::size_t known_seeds = 4;

}  // namespace

/// Passes a search's questions on to what earlier runs taught.
class SearchSetup::Predict : public search::Predictor {
 public:
  explicit Predict(Knowledge& knowledge) : knowledge_(knowledge) {}
  std::optional<double> predicted_log_ms(const search::RegionSpec& region,
                                         const codegen::Genome& genome) const override {
    return knowledge_.predicted_log_ms(region.id, genome);
  }
  void observe(const search::RegionSpec& region, const codegen::Genome& genome, const search::Told& told) override {
    // What was given up for its time alone did not fail.
    knowledge_.observe(region.id, genome, told.ok || told.slow, told.median_ms);
  }

 private:
  Knowledge& knowledge_;
};

SearchSetup::SearchSetup(Knowledge& knowledge) : knowledge_(knowledge) {}
SearchSetup::~SearchSetup() = default;

void SearchSetup::add(const PlannedRegion& region, double fallback_ms, double bound_ms) {
  search::RegionSpec spec;
  spec.id = region.id;
  spec.key = region.key;
  spec.count = region.count;
  spec.bound_ms = bound_ms;
  spec.launch_ms = region.launch_ms;
  spec.alternative = region.alternative;
  if (fallback_ms > 0) spec.fallback_ms = fallback_ms;
  Fitted fitted;
  spec.domain = with_seeds(region.domain, knowledge_.seeds(region.id, known_seeds), knowledge_.met(region.id), &fitted);
  guesses_.taken += fitted.taken;
  guesses_.completed += fitted.completed;
  guesses_.left_out += fitted.left_out;
  specs_.push_back(std::move(spec));
}

void SearchSetup::add_ways(const std::vector<PlannedWay>& ways) {
  const auto uses = [&](const std::vector<PlannedWay::Use>& planned) {
    std::vector<search::Way::Use> out;
    for (const PlannedWay::Use& use : planned) {
      const auto spec = std::ranges::find(specs_, use.region, &search::RegionSpec::id);
      if (spec != specs_.end()) out.push_back({static_cast<std::size_t>(spec - specs_.begin()), use.times});
    }
    return out;
  };
  for (std::size_t w = 0; w < ways.size(); ++w) {
    search::Way way{uses(ways[w].replaces), uses(ways[w].by)};
    if (way.replaces.size() < ways[w].replaces.size() || way.by.size() < ways[w].by.size()) continue;
    ways_.push_back(std::move(way));
    planned_ways_.push_back(w);
  }
}

void SearchSetup::add_whole(const PlannedRegion& region, double whole_ms, double bound_ms) {
  search::Way way;
  way.whole = true;
  way.beside_ms = whole_ms;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const search::RegionSpec& part = specs_[i];
    if (part.alternative) continue;
    way.replaces.push_back({i, part.count});
    if (part.fallback_ms < search::no_time) way.beside_ms -= part.fallback_ms * part.count;
  }
  way.beside_ms = std::max(way.beside_ms, 0.0);
  way.by.push_back({specs_.size(), 1});
  search::RegionSpec spec;
  spec.id = region.id;
  spec.key = region.key;
  spec.bound_ms = bound_ms;
  if (whole_ms > 0) spec.fallback_ms = whole_ms;
  spec.alternative = spec.sources_only = true;
  spec.domain = region.domain;
  specs_.push_back(std::move(spec));
  ways_.push_back(std::move(way));
}

std::unique_ptr<search::Search> SearchSetup::make(std::uint64_t seed, search::SearchOptions how) {
  how.ways = std::move(ways_);
  // Without earlier runs a model would know only what the search's own surrogate knows too.
  if (knowledge_.model().has_prior()) {
    predictor_ = std::make_unique<Predict>(knowledge_);
    how.predictor = predictor_.get();
  }
  return std::make_unique<search::Search>(std::move(specs_), seed, std::move(how));
}

}  // namespace planish::session
