#include "session/search_setup.h"

#include <algorithm>
#include <utility>

#include "backend/backend.h"

namespace planish::session {
namespace {

/// First guesses taken from earlier runs. Each costs an evaluation.
constexpr std::size_t known_seeds = 4;

}  // namespace

/// Passes a search's questions on to what earlier runs taught.
class SearchSetup::Predict : public search::Predictor {
 public:
  explicit Predict(TuningDatabase& tuning) : tuning_(tuning) {}
  std::optional<double> predicted_log_ms(const search::RegionSpec& region,
                                         const codegen::Genome& genome) const override {
    return tuning_.predicted_log_ms(region.id, genome);
  }
  void observe(const search::RegionSpec& region, const codegen::Genome& genome, const search::Told& told) override {
    // What was given up for its time alone did not fail.
    tuning_.observe(region.id, genome, told.ok || told.slow, told.median_ms);
  }

 private:
  TuningDatabase& tuning_;
};

SearchSetup::SearchSetup(TuningDatabase& tuning) : tuning_(tuning) {}
SearchSetup::~SearchSetup() = default;

int SearchSetup::window(const DeviceFacts& device) {
  return backend::named(device.target).on_host ? 2 : std::clamp(device.cores / 2, 4, 8);
}

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
  spec.domain = with_seeds(region.domain, tuning_.seeds(region.id, known_seeds), tuning_.met(region.id), &fitted);
  guesses_.taken += fitted.taken;
  guesses_.completed += fitted.completed;
  guesses_.left_out += fitted.left_out;
  specs_.push_back(std::move(spec));
}

void SearchSetup::add_fusions(const std::vector<PlannedFusion>& fusions) {
  const auto uses = [&](const std::vector<PlannedFusion::Use>& planned) {
    std::vector<search::FusionPlan::Use> out;
    for (const PlannedFusion::Use& use : planned) {
      const auto spec = std::ranges::find(specs_, use.region, &search::RegionSpec::id);
      if (spec != specs_.end()) out.push_back({static_cast<std::size_t>(spec - specs_.begin()), use.times});
    }
    return out;
  };
  for (std::size_t w = 0; w < fusions.size(); ++w) {
    search::FusionPlan fusion{uses(fusions[w].replaces), uses(fusions[w].by)};
    if (fusion.replaces.size() < fusions[w].replaces.size() || fusion.by.size() < fusions[w].by.size()) continue;
    fusions_.push_back(std::move(fusion));
    planned_fusions_.push_back(w);
  }
}

void SearchSetup::add_whole(const PlannedRegion& region, double whole_ms, double bound_ms) {
  search::FusionPlan fusion;
  fusion.whole = true;
  fusion.beside_ms = whole_ms;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const search::RegionSpec& part = specs_[i];
    if (part.alternative) continue;
    fusion.replaces.push_back({i, part.count});
    if (part.fallback_ms < search::no_time) fusion.beside_ms -= part.fallback_ms * part.count;
  }
  fusion.beside_ms = std::max(fusion.beside_ms, 0.0);
  fusion.by.push_back({specs_.size(), 1});
  search::RegionSpec spec;
  spec.id = region.id;
  spec.key = region.key;
  spec.bound_ms = bound_ms;
  if (whole_ms > 0) spec.fallback_ms = whole_ms;
  spec.alternative = spec.sources_only = true;
  spec.domain = region.domain;
  specs_.push_back(std::move(spec));
  fusions_.push_back(std::move(fusion));
}

std::unique_ptr<search::Search> SearchSetup::make(std::uint64_t seed, search::SearchOptions how) {
  how.fusions = std::move(fusions_);
  // Without earlier runs a model would know only what the search's own surrogate knows too.
  if (tuning_.model().has_prior()) {
    predictor_ = std::make_unique<Predict>(tuning_);
    how.predictor = predictor_.get();
  }
  return std::make_unique<search::Search>(std::move(specs_), seed, std::move(how));
}

}  // namespace planish::session
