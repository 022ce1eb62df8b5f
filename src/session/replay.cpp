#include "session/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "evaluate/codec.h"
#include "search/run.h"
#include "session/judge_advisor.h"
#include "session/optimize_flow.h"
#include "session/planner.h"
#include "session/search_setup.h"
#include "session/seeded_domain.h"
#include "session/strategy_choice.h"
#include "session/tuning_database.h"
#include "session/turns.h"

namespace planish::session {
namespace {

/// How the search is stopped from within: what it asks for was not recorded.
constexpr ErrorKind stop = "replay_differs";

std::string words_of(const store::EvaluationRecord& record) {
  return fmt::format("{} ({})", record.genome, record.proposer);
}

bool is_final(const store::EvaluationRecord& record) {
  return search::origin_from_text(record.proposer).by == "final";
}

/// What the world was to the recorded run: answers from the store, and compares.
class Recorded : public search::Evaluator, public search::History, public search::EvaluationSink {
 public:
  explicit Recorded(const std::vector<store::EvaluationRecord>& records) {
    std::int64_t last = -1;
    for (const auto& record : records) {
      if (record.asked < 0) continue;
      known_[{record.region_key, record.program, record.level == "full"}] = &record;
      // Of two under one number the first was lost to a fault of ours, and asked for again when the run went on.
      if (is_final(record)) continue;
      search_[record.asked] = &record;
      last = std::max(last, record.asked);
    }
    for (const auto& record : records) {
      // Elites measured at the end of a part that was interrupted have numbers that the search used again.
      if (record.asked > last && is_final(record)) finals_[record.asked] = &record;
    }
    next_ = search_.begin();
    next_final_ = finals_.begin();
  }

  std::int64_t searched() const { return static_cast<std::int64_t>(search_.size()); }

  /// Asked in the order of the proposals, before each evaluation.
  std::optional<Evaluation> recall(const search::RegionSpec& region, const std::string& program, bool full) override {
    if (differs_) return std::nullopt;  // of several under way the first is what counts
    const store::EvaluationRecord* expected = nullptr;
    if (next_ != search_.end()) {
      expected = (next_++)->second;
    } else if (next_final_ != finals_.end()) {
      expected = (next_final_++)->second;
    } else {
      return std::nullopt;  // the run ended here
    }
    if (expected->region != region.id || expected->program != program || (expected->level == "full") != full) {
      differs_ = true;
      const std::scoped_lock lock(mutex_);
      note({expected->asked, region.id, words_of(*expected), program});
      return std::nullopt;
    }
    auto evaluation = parse_evaluation(known_.at({region.key, program, full})->document);
    if (!evaluation) return std::nullopt;
    told_.push_back(expected);
    return std::move(*evaluation);
  }

  Result<Evaluation> evaluate(const search::RegionSpec& region, const coder::Candidate& candidate, bool,
                              double) override {
    // Called from several threads. A genome says more than the program's hash.
    const std::scoped_lock lock(mutex_);
    if (result.difference && result.difference->region == region.id && result.difference->derived == candidate.hash)
      result.difference->derived = coder::text(candidate.proposal);
    return fail(stop, "not recorded");
  }

  Status record(const search::RegionSpec& region, const search::Ask& ask, const coder::Candidate&, const Evaluation&,
                search::Answer, bool) override {
    const store::EvaluationRecord& was = *told_[static_cast<std::size_t>(result.decisions + result.finals)];
    const std::string by = search::text(ask.origin);
    if (was.asked != ask.serial || was.proposer != by) {
      const std::scoped_lock lock(mutex_);
      note({was.asked, region.id, words_of(was),
            fmt::format("{} ({}), number {}", coder::text(ask.proposal), by, ask.serial)});
      return fail(stop, "another decision");
    }
    ++(is_final(was) ? result.finals : result.decisions);
    return {};
  }
  void duplicate(const search::RegionSpec&) override {}
  Status not_built(const search::RegionSpec&, const search::Ask&, const Error&) override { return {}; }
  Status turn(const search::RegionSpec&, const search::Ask&) override { return {}; }

  /// The search ended by itself: was that all?
  void ended() {
    if (next_ != search_.end()) note({next_->first, next_->second->region, words_of(*next_->second), "nothing more"});
  }

  ReplayResult result;

 private:
  void note(ReplayResult::Difference difference) {
    if (!result.difference) result.difference = std::move(difference);
  }

  using Asked = std::map<std::int64_t, const store::EvaluationRecord*>;
  Asked search_, finals_;
  Asked::const_iterator next_, next_final_;
  std::map<std::tuple<std::string, std::string, bool>, const store::EvaluationRecord*> known_;
  std::vector<const store::EvaluationRecord*> told_;
  bool differs_ = false;
  std::mutex mutex_;  ///< of result
};

std::unexpected<Error> not_replayable(const store::RunRecord& run, const std::string& why) {
  return fail("not_replayable", fmt::format("run {} cannot be derived again: {}", run.id, why),
              "runs of this version of Planish can");
}

/// The regions that the run searched, as it searched them; a difference where they are cut otherwise now.
Result<std::optional<ReplayResult::Difference>> add_regions(store::Store& store, const store::RunRecord& run,
                                                            const Plan& plan, TuningDatabase& tuning,
                                                            SearchSetup& setup) {
  PLANISH_TRY(const auto kept, store.regions(run.id));
  for (const PlannedRegion& region : plan.regions()) {
    const auto was = std::ranges::find(kept, region.id, &store::RegionRecord::id);
    if (was == kept.end()) break;  // the run ended before it came to this one
    if (was->key != region.key) return ReplayResult::Difference{0, region.id, was->key, region.key};
    const std::string genes = genes_text(region.domain->genes());
    if (was->genes != genes) return ReplayResult::Difference{0, region.id, was->genes, genes};
    PLANISH_CHECK(tuning.add_region(region));
    if (was->searched) setup.add(region, was->fallback_ms, was->bound_ms);
  }
  setup.add_fusions(plan.fusions());
  // Only where the run had coders.
  const auto was = std::ranges::find(kept, whole_task, &store::RegionRecord::id);
  if (const auto seat = plan.whole(); seat && was != kept.end())
    setup.add_whole(*seat, was->fallback_ms, was->bound_ms);
  return std::nullopt;
}

}  // namespace

Result<DeviceFacts> device_facts_of(const store::RunRecord& run) {
  PLANISH_TRY(const Json json, parse_json(run.device_facts, "store_corrupt", "the run's device"));
  DeviceFacts out;
  PLANISH_CHECK(codec::read(json, out));
  return out;
}

Result<ReplayResult> replay(store::Store& store, const store::RunRecord& run, Planner& planner) {
  if (run.graph.empty() || run.device_facts.empty()) return not_replayable(run, "its graph was not kept");
  OptimizeRequest settings;
  PLANISH_CHECK(apply_settings(run.settings, settings));
  PLANISH_TRY(const std::string graph, store.get(run.graph));
  PLANISH_TRY(const DeviceFacts device, device_facts_of(run));
  PLANISH_TRY(const auto plan, planner.plan(graph, device));
  PLANISH_TRY(const auto records, store.evaluations(run.id, true));

  Recorded world(records);
  TuningDatabase tuning(store, run.id, run.device, run.started, settings.cold);
  SearchSetup setup(tuning);
  PLANISH_TRY(world.result.difference, add_regions(store, run, *plan, tuning, setup));
  if (world.result.difference || setup.empty() || world.searched() == 0) return world.result;
  search::SearchOptions how;
  how.strategy = settings.strategy;
  how.draws = settings.draws;
  how.model_seats = model_seats(settings);
  PLANISH_TRY(how.recorded, recorded_turns(store, run.id, setup.specs(), records));
  const auto search = setup.make(settings.seed, std::move(how));
  const JudgeAdvisor advisor(device_of(device));
  search::RunOptions options;
  options.budget = {0, world.searched()};
  options.window = SearchSetup::window(device);
  options.target = device.target;
  options.advisor = &advisor;
  auto ran = search::run_search(*search, world, &world, world, real_clock(), options);
  if (!ran && ran.error().kind != stop) return std::unexpected(std::move(ran.error()));
  if (ran) world.ended();
  return world.result;
}

}  // namespace planish::session
