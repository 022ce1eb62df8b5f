#include "cli/recording.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace planish::cli {

Recording::Recording(store::Store& store, std::string run, Progress& progress, Clock& clock)
    : store_(store), run_(std::move(run)), progress_(progress), clock_(clock) {}

Status Recording::load_history() {
  PLANISH_TRY(auto records, store_.evaluations(run_, true));
  for (auto& record : records) {
    auto evaluation = parse_evaluation(record.document);
    // Our own faults are worth another try; a document that cannot be read counts as not measured.
    if (!evaluation || evaluation->outcome == Outcome::infrastructure) continue;
    seconds_used_ = std::max(seconds_used_, record.at_seconds);
    known_.insert_or_assign({record.region_key, record.program, record.level == "full"}, std::move(*evaluation));
  }
  return {};
}

void Recording::search_begins(double seconds) {
  began_ = clock_.now();
  budget_ = seconds;
}

double Recording::used_now() const {
  if (!began_) return seconds_used_;
  return seconds_used_ + std::chrono::duration<double>(clock_.now() - *began_).count();
}

std::optional<Evaluation> Recording::recall(const std::string& key, const std::string& program, bool full) {
  const auto found = known_.find({key, program, full});
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

std::optional<Evaluation> Recording::recall(const search::RegionSpec& region, const std::string& program, bool full) {
  return recall(region.key, program, full);
}

Status Recording::keep(const std::string& region, const std::string& key, const std::string& program,
                       const std::string& genome, const Evaluation& evaluation, bool recalled) {
  const std::string outcome(name(evaluation.outcome));
  ++counts_[std::string(name(evaluation.tier))][outcome];
  if (budget_ > 0) progress_.left(std::max(budget_ - used_now(), 0.0));
  progress_.count(outcome);
  if (recalled) return {};
  PLANISH_TRY(std::string object, store_.put(program));
  store::EvaluationRecord record;
  record.region = region;
  record.region_key = key;
  record.program = std::move(object);
  record.genome = genome;
  record.level = evaluation.level;
  record.benched = evaluation.bench.has_value();
  record.tier = name(evaluation.tier);
  record.outcome = outcome;
  record.median_ms = evaluation.bench ? evaluation.bench->median_ms : 0;
  record.at_seconds = used_now();
  record.document = to_json(evaluation);
  return store_.add_evaluation(run_, record);
}

Status Recording::record(const search::RegionSpec& region, const search::Proposal& proposal,
                         const coder::Candidate& candidate, const Evaluation& evaluation, search::Answer answer,
                         bool recalled) {
  if (!proposal.full) {  // elites measured again went through the funnel before
    compiled_ += evaluation.tier >= Tier::compile ? 1 : 0;
    tested_ += evaluation.tier >= Tier::test ? 1 : 0;
    timed_ += evaluation.ok() && evaluation.bench ? 1 : 0;
  }
  if (answer == search::Answer::improved && evaluation.bench) {
    const double fallback = region.fallback_ms == search::no_time ? 0 : region.fallback_ms;
    progress_.best(region.id, evaluation.bench->median_ms, fallback);
  }
  PLANISH_CHECK(
      keep(region.id, region.key, candidate.program, region.domain->text(proposal.genome), evaluation, recalled));
  if (knowledge_ == nullptr || recalled) return {};
  return knowledge_->keep(region.id, proposal.genome, evaluation, clock_.wall_seconds());
}

void Recording::duplicate(const search::RegionSpec&) {
  ++counts_["dedup"]["duplicate"];
  progress_.count("duplicate");
}

void Recording::not_built(const search::RegionSpec&, const Error&) {
  ++counts_["compile"]["invalid_program"];
  progress_.count("invalid_program");
}

}  // namespace planish::cli
