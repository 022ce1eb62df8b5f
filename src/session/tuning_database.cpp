#include "session/tuning_database.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/earlier_names.h"

namespace planish::session {
namespace {

/// A genome that was given up had a time, if a poor one.
bool has_time(const std::string& outcome, double ms) {
  return (outcome == name(Outcome::ok) || outcome == name(Outcome::given_up)) && ms > 0;
}

/// How much a certain failure counts, as a factor of time (logarithm): as bad as three times slower.
constexpr double failure_log_ms = 1.1;
/// Genomes of a region that are remembered, 200 bytes each.
constexpr std::size_t most_said = 1U << 15U;

/// Of the values alone: all genomes of a region have the same genes.
std::uint64_t key_of(const codegen::Genome& genome) {
  std::uint64_t out = 0xcbf29ce484222325ULL;
  for (const auto& [name, value] : genome) {
    out = (out ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15ULL;
    out ^= out >> 32U;
  }
  return out;
}

}  // namespace

void read_tuning_records(const std::vector<store::TuningRecord>& stored, std::vector<model::Sample>& samples,
                         std::vector<model::Known>& known) {
  for (const store::TuningRecord& one : stored) {
    auto facts = model::features_from_text(one.kernel.facts);
    if (!facts) continue;
    const model::KernelClass kernel{one.kernel.pattern, one.kernel.kinds, one.kernel.bucket, *facts};
    for (const store::OutcomeRecord& outcome : one.outcomes) {
      if (outcome.outcome == name(Outcome::infrastructure)) continue;
      auto features = model::features_from_text(outcome.features);
      auto genome = codegen::genome_from_text(outcome.genome);
      if (!features || !genome) continue;
      features->insert(facts->begin(), facts->end());
      const bool timed = has_time(outcome.outcome, outcome.median_ms);
      samples.push_back({outcome.key, std::move(*features), timed, timed ? std::log(outcome.median_ms) : 0});
      if (outcome.outcome == name(Outcome::ok))
        known.push_back({kernel, outcome.key, std::move(*genome), outcome.median_ms, outcome.bound_ms});
    }
  }
}

TuningDatabase::TuningDatabase(store::Store& store, std::string run, std::string device, double since, bool cold)
    : store_(store), run_(std::move(run)), device_(std::move(device)), since_(since), cold_(cold) {}

Status TuningDatabase::add_region(const PlannedRegion& region) {
  if (region.features == nullptr) return {};
  if (!cold_) PLANISH_CHECK(learn(region.features->kernel_class().pattern));
  Region& known = regions_[region.id];
  known.key = region.key;
  known.features = region.features;
  known.asking = std::make_unique<Region::Asking>(region.features);
  return {};
}

Status TuningDatabase::learn(const std::string& pattern) {
  if (!patterns_.try_emplace(pattern, true).second) return {};
  PLANISH_TRY(auto stored, store_.tuning_records(device_, pattern, since_));
  if (const auto earlier = codegen::earlier_anchor_name(pattern); !earlier.empty()) {
    PLANISH_TRY(auto renamed, store_.tuning_records(device_, std::string(earlier), since_));
    for (store::TuningRecord& one : renamed) {
      one.kernel.pattern = pattern;
      stored.push_back(std::move(one));
    }
  }
  read_tuning_records(stored, earlier_, known_);
  if (!earlier_.empty()) model_.learn_prior(earlier_);
  return {};
}

std::vector<codegen::Genome> TuningDatabase::seeds(const std::string& region, std::size_t count) const {
  const auto found = regions_.find(region);
  if (found == regions_.end()) return {};
  return model::seeds_from(known_, found->second.features->kernel_class(), found->second.key, count);
}

bool TuningDatabase::met(const std::string& region) const {
  const auto found = regions_.find(region);
  return found != regions_.end() && std::ranges::find(known_, found->second.key, &model::Known::key) != known_.end();
}

model::Features TuningDatabase::features_of(const Region& region, const codegen::Genome& genome) const {
  model::Features features = region.features->of(genome);
  const auto& facts = region.features->kernel_class().facts;
  features.insert(facts.begin(), facts.end());
  return features;
}

Status TuningDatabase::keep(const std::string& region, const codegen::Genome& genome, const Evaluation& evaluation,
                            double at) {
  const auto found = regions_.find(region);
  if (found == regions_.end() || evaluation.outcome == Outcome::infrastructure ||
      evaluation.outcome == Outcome::duplicate)
    return {};
  if (!found->second.filed) {
    const model::KernelClass& kernel = found->second.features->kernel_class();
    PLANISH_CHECK(store_.add_kernel(
        {device_, found->second.key, kernel.pattern, kernel.kinds, kernel.bucket, model::text(kernel.facts)}));
    found->second.filed = true;
  }
  if (evaluation.roofline) found->second.bound_ms = evaluation.roofline->bound_ms;
  return store_.add_outcome({device_, found->second.key, run_, codegen::text(genome),
                             model::text(found->second.features->of(genome)), std::string(name(evaluation.outcome)),
                             evaluation.bench ? evaluation.bench->median_ms : 0, found->second.bound_ms, at});
}

void TuningDatabase::observe(const std::string& region, const codegen::Genome& genome, bool ok, double median_ms) {
  const auto found = regions_.find(region);
  if (found == regions_.end()) return;
  const bool timed = ok && median_ms > 0;
  model_.observe({found->second.key, features_of(found->second, genome), timed, timed ? std::log(median_ms) : 0});
}

std::optional<double> TuningDatabase::predicted_log_ms(const std::string& region, const codegen::Genome& genome) const {
  const auto found = regions_.find(region);
  if (found == regions_.end()) return std::nullopt;
  const Region& known = found->second;
  const std::uint64_t key = key_of(genome);
  auto at = known.said.find(key);
  if (at != known.said.end() && at->second.at == model_.lessons()) return at->second.log_ms;
  if (at == known.said.end()) {
    if (known.said.size() >= most_said) known.said.clear();
    at = known.said.try_emplace(key).first;
    at->second.derived = known.features->derive(genome);
  }
  Region::Said& said = at->second;
  const model::Features& features = known.asking->describer.of(genome, said.derived);
  if (!known.asking->places) known.asking->places.emplace(features);
  model::CostModel::Places& places = *known.asking->places;
  if (said.earlier_at != model_.earlier_lessons()) {
    said.earlier = model_.earlier(places);
    said.earlier_at = model_.earlier_lessons();
  }
  const model::Guess guess = model_.guess(known.key, places, said.earlier);
  said.log_ms.reset();
  if (guess.known) said.log_ms = guess.log_ms + failure_log_ms * guess.failure;
  said.at = model_.lessons();
  return said.log_ms;
}

}  // namespace planish::session
