#include "session/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "search/cell.h"

namespace planish::session {
namespace {

/// −1 where it did not pass, or its document does not say.
int cell_index(const Evaluation& evaluation, const std::string& target) {
  if (!evaluation.ok()) return -1;
  const auto cell = search::cell_of(evaluation, target);
  return cell ? cell->index() : -1;
}

}  // namespace

Recording::Recording(store::Store& store, std::string run, std::string target, Progress& progress, Clock& clock)
    : store_(store), run_(std::move(run)), target_(std::move(target)), progress_(progress), clock_(clock) {}

Status Recording::load_history() {
  PLANISH_TRY(auto records, store_.evaluations(run_, true));
  for (auto& record : records) {
    auto evaluation = parse_evaluation(record.document);
    // Our own faults are worth another try; a document that cannot be read counts as not measured.
    if (!evaluation || evaluation->outcome == Outcome::infrastructure) continue;
    seconds_used_ = std::max(seconds_used_, record.at_seconds);
    known_.insert_or_assign({record.region_key, record.program, record.level == "full"},
                            Known{std::move(*evaluation), record.asked});
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
  return found->second.evaluation;
}

std::optional<Evaluation> Recording::recall(const search::RegionSpec& region, const std::string& program, bool full) {
  return recall(region.key, program, full);
}

void Recording::note(const std::string& region, const Evaluation& evaluation, const search::Origin& origin) {
  ++counts_[std::string(name(evaluation.tier))][std::string(name(evaluation.outcome))];
  if (budget_ > 0) progress_.left(std::max(budget_ - used_now(), 0.0));
  progress_.ended({name(evaluation.tier), name(evaluation.outcome), region, cell_index(evaluation, target_), origin.by,
                   origin.agent});
}

void Recording::keep_failure(const std::string& region, const std::string& program, const Evaluation& evaluation) {
  if (evaluation.ok() && evaluation.bench && evaluation.level != "full")
    screened_ms_[{region, program}] = evaluation.bench->median_ms;
  const bool said_nothing = evaluation.ok() || evaluation.outcome == Outcome::infrastructure ||
                            evaluation.outcome == Outcome::given_up || evaluation.outcome == Outcome::duplicate;
  if (said_nothing || evaluation.level != "full") return;
  const auto before = screened_ms_.find({region, program});
  failed_finals_.push_back(
      {region, evaluation.outcome, evaluation.message, before == screened_ms_.end() ? 0 : before->second});
}

Status Recording::add(store::EvaluationRecord record, const std::string& program, const Evaluation& evaluation) {
  PLANISH_TRY(record.program, store_.put(program));
  record.level = evaluation.level;
  record.benched = evaluation.bench.has_value();
  record.tier = name(evaluation.tier);
  record.outcome = name(evaluation.outcome);
  record.median_ms = evaluation.bench ? evaluation.bench->median_ms : 0;
  record.at_seconds = used_now();
  record.document = to_json(evaluation);
  record.cell = cell_index(evaluation, target_);
  return store_.add_evaluation(run_, record);
}

Status Recording::keep(const std::string& region, const std::string& key, const std::string& program,
                       const Evaluation& evaluation, bool recalled) {
  note(region, evaluation, {});
  keep_failure(region, evaluation.program, evaluation);
  if (recalled) return {};
  store::EvaluationRecord record;
  record.region = region;
  record.region_key = key;
  return add(std::move(record), program, evaluation);
}

Status Recording::record(const search::RegionSpec& region, const search::Ask& ask, const coder::Candidate& candidate,
                         const Evaluation& evaluation, search::Answer answer, bool recalled) {
  if (!ask.full) {  // elites measured again went through the funnel before
    compiled_ += evaluation.tier >= Tier::compile ? 1 : 0;
    tested_ += evaluation.tier >= Tier::test ? 1 : 0;
    timed_ += evaluation.ok() && evaluation.bench ? 1 : 0;
    if (evaluation.compile && !evaluation.compile->cached) {
      ++built_;
      built_seconds_ += evaluation.compile->seconds;
    }
  }
  if (answer == search::Answer::improved && evaluation.bench && !ask.full) {
    const double fallback = region.fallback_ms == search::no_time ? 0 : region.fallback_ms;
    progress_.best(region.id, evaluation.bench->median_ms, fallback);
    best_.push_back({ask.serial, region.id, search::text(ask.origin), evaluation.bench->median_ms, used_now()});
  }
  note(region.id, evaluation, ask.origin);
  keep_failure(region.id, candidate.hash, evaluation);
  store::EvaluationRecord record;
  record.region = region.id;
  record.region_key = region.key;
  record.genome = coder::text(ask.proposal);
  record.asked = ask.serial;
  record.proposer = search::text(ask.origin);
  if (ask.predicted_log_ms) record.predicted_ms = std::exp(*ask.predicted_log_ms);
  program_of_.try_emplace({region.id, record.genome}, candidate.hash);
  if (const auto* patch = std::get_if<coder::Patch>(&ask.proposal)) record.parent = patch->parent_program;
  if (ask.origin.parent) {
    const auto parent = program_of_.find({region.id, codegen::text(*ask.origin.parent)});
    // A mutation may leave everything as it was.
    if (parent != program_of_.end() && parent->second != candidate.hash) record.parent = parent->second;
  }
  if (recalled) {
    // Asked for under another number than before, it is another decision: without it the run could not be derived
    // again.
    const auto known = known_.find({region.key, candidate.hash, ask.full});
    if (known != known_.end() && known->second.asked == ask.serial) return {};
    return add(std::move(record), candidate.program.text(), evaluation);
  }
  PLANISH_CHECK(add(std::move(record), candidate.program.text(), evaluation));
  const auto* genome = coder::genome_of(ask.proposal);
  if (tuning_ == nullptr || genome == nullptr) return {};
  return tuning_->keep(region.id, *genome, evaluation, clock_.wall_seconds());
}

void Recording::duplicate(const search::RegionSpec& region) {
  ++counts_["dedup"]["duplicate"];
  progress_.ended({"dedup", "duplicate", region.id});
}

Status Recording::not_built(const search::RegionSpec& region, const search::Ask& ask, const Error& error) {
  ++counts_["compile"]["invalid_program"];
  progress_.ended({"compile", "invalid_program", region.id});
  // Of a genome it is derived again.
  if (ask.origin.seat.empty()) return {};
  return keep_turn(region, ask, fmt::format("{}: {}", error.kind.name(), error.message));
}

Status Recording::turn(const search::RegionSpec& region, const search::Ask& ask) {
  return keep_turn(region, ask, {});
}

Status Recording::keep_turn(const search::RegionSpec& region, const search::Ask& ask, std::string error) {
  const std::string document = coder::document(ask.proposal);
  if (!document.empty()) PLANISH_CHECK(store_.put(document));
  return store_.add_turn(
      run_, {ask.serial, region.id, ask.origin.seat, coder::text(ask.proposal), ask.dry, std::move(error)});
}

}  // namespace planish::session
