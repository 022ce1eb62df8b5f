#include "search/run.h"

#include <chrono>
#include <deque>
#include <future>
#include <utility>

namespace planish::search {
namespace {

struct InFlight {
  Proposal proposal;
  coder::Candidate candidate;
  bool recalled = false;
  std::future<Result<Evaluation>> evaluation;
};

class Loop {
 public:
  Loop(Search& search, Evaluator& evaluator, History* history, EvaluationSink& sink, const Clock& clock,
       const RunOptions& options)
      : search_(search),
        evaluator_(evaluator),
        history_(history),
        sink_(sink),
        clock_(clock),
        options_(options),
        began_(clock.now()) {}

  Result<RunResult> run() {
    PLANISH_CHECK(drive(false));
    PLANISH_CHECK(drive(true));
    return result_;
  }

 private:
  bool over() {
    if (options_.cancel.cancelled()) {
      result_.stopped = Stopped::cancelled;
      return true;
    }
    // Replaying costs no budget, and must come to its end before what was used is counted again.
    if (history_ != nullptr && !fresh_) return counted_out();
    const double seconds = options_.seconds_used + std::chrono::duration<double>(clock_.now() - began_).count();
    if (options_.budget.seconds > 0 && seconds >= options_.budget.seconds) {
      result_.stopped = Stopped::budget;
      return true;
    }
    return counted_out();
  }

  bool counted_out() {
    if (options_.budget.evaluations <= 0 || result_.evaluations < options_.budget.evaluations) return false;
    result_.stopped = Stopped::budget;
    return true;
  }

  /// One phase: screening (until over) or finals (always to their end: a search without them has no winner).
  Status drive(bool finals) {
    while (true) {
      while (static_cast<int>(flying_.size()) < std::max(options_.window, 1) && (finals || !over())) {
        auto proposal = finals ? search_.ask_final() : search_.ask();
        if (!proposal) break;
        PLANISH_CHECK(launch(std::move(*proposal)));
      }
      if (flying_.empty()) {
        // What was just told may have opened new ways (a climb that found a neighbour), or the phase is over.
        if (!finals && over()) return {};
        auto proposal = finals ? search_.ask_final() : search_.ask();
        if (!proposal) return {};
        PLANISH_CHECK(launch(std::move(*proposal)));
        continue;
      }
      PLANISH_CHECK(land());
    }
  }

  Status launch(Proposal proposal) {
    const RegionSpec& region = search_.specs()[proposal.region];
    auto built = region.domain->build(proposal.genome);
    if (!built) {
      sink_.not_built(region, built.error());
      PLANISH_TRY(auto answer, search_.tell(proposal.serial, Told{}));
      (void)answer;
      return {};
    }
    // Two genomes may emit the same code; only the first is worth evaluating.
    const std::string& identity = built->variant.empty() ? built->hash : built->variant;
    if (!proposal.full && search_.claim_program(proposal, identity)) {
      sink_.duplicate(region);
      PLANISH_TRY(auto answer, search_.tell_duplicate(proposal.serial));
      (void)answer;
      return {};
    }
    InFlight flight{std::move(proposal), std::move(*built), false, {}};
    ++result_.evaluations;
    if (history_ != nullptr) {
      if (auto known = history_->recall(region, flight.candidate.hash, flight.proposal.full)) {
        std::promise<Result<Evaluation>> ready;
        ready.set_value(std::move(*known));
        flight.evaluation = ready.get_future();
        flight.recalled = true;
        ++result_.recalled;
        flying_.push_back(std::move(flight));
        return {};
      }
    }
    fresh_ = true;
    flying_.push_back(std::move(flight));
    InFlight& stored = flying_.back();  // deque: references survive push_back and pop_front of others
    stored.evaluation =
        std::async(options_.window > 1 ? std::launch::async : std::launch::deferred, [this, &region, &stored] {
          return evaluator_.evaluate(region, stored.candidate, stored.proposal.full, stored.proposal.give_up_ms);
        });
    return {};
  }

  /// Waits for the oldest proposal and tells it.
  Status land() {
    InFlight& flight = flying_.front();
    auto evaluation = flight.evaluation.get();
    if (!evaluation) {
      const Error error = std::move(evaluation.error());
      for (InFlight& other : flying_) {
        if (other.evaluation.valid()) other.evaluation.wait();
      }
      flying_.clear();
      return std::unexpected(error);
    }
    const RegionSpec& region = search_.specs()[flight.proposal.region];
    const Told told = told_of(region, flight, *evaluation);
    PLANISH_TRY(auto answer, search_.tell(flight.proposal.serial, told));
    PLANISH_CHECK(sink_.record(region, flight.proposal, flight.candidate, *evaluation, answer, flight.recalled));
    flying_.pop_front();
    return {};
  }

  Told told_of(const RegionSpec& region, const InFlight& flight, const Evaluation& evaluation) const {
    Told told;
    told.ok = evaluation.ok() && evaluation.bench && evaluation.bench->median_ms > 0;
    told.slow = evaluation.outcome == Outcome::given_up;
    if (evaluation.bench && (told.ok || told.slow)) {
      told.median_ms = evaluation.bench->median_ms;
      told.lo_ms = evaluation.bench->lo_ms;
      told.hi_ms = evaluation.bench->hi_ms;
    }
    told.program = flight.candidate.hash;
    // From the document alone, so that a replayed run counts the same.
    if (evaluation.compile) told.seconds += evaluation.compile->seconds;
    if (evaluation.test) told.seconds += evaluation.test->seconds;
    if (evaluation.bench)
      told.seconds += 1e-3 * evaluation.bench->wall_ms * static_cast<double>(evaluation.bench->runs);
    if (told.ok) told.cell = cell_of(evaluation, options_.target);
    if (options_.advisor != nullptr && !flight.proposal.full) {
      told.moves = options_.advisor->advise(region, evaluation, flight.proposal.genome, region.domain->genes());
    }
    return told;
  }

  Search& search_;
  Evaluator& evaluator_;
  History* history_;
  EvaluationSink& sink_;
  const Clock& clock_;
  const RunOptions& options_;
  TimePoint began_;
  std::deque<InFlight> flying_;
  RunResult result_;
  bool fresh_ = false;  ///< something was evaluated that no history knew
};

}  // namespace

Result<RunResult> run_search(Search& search, Evaluator& evaluator, History* history, EvaluationSink& sink,
                             const Clock& clock, const RunOptions& options) {
  return Loop(search, evaluator, history, sink, clock, options).run();
}

}  // namespace planish::search
