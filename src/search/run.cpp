#include "search/run.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <utility>

namespace planish::search {
namespace {

/// More data sets and a longer timing: what measuring an elite costs in candidates screened, until one was measured.
constexpr double screens_a_final = 4;
/// Of those a region's winner comes from.
constexpr double elites_a_region = 3;
/// Of the budget. With many regions not all elites can be measured.
constexpr double most_for_finals = 0.4;
/// Seconds that coders are waited for before it is asked again whether there is time left.
constexpr double coder_patience = 0.1;

struct InFlight {
  Ask ask;
  coder::Candidate candidate;
  bool recalled = false;
  double began = 0;  ///< seconds of the loop
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
    result_.polls = search_.polls();
    // Nobody pays for what nobody reads any more.
    search_.dismiss_coders();
    if (result_.stopped != Stopped::out_of_time) {
      screening_ = false;
      PLANISH_CHECK(drive(true));
    }
    search_.settle();
    result_.finals = finals_;
    return result_;
  }

 private:
  bool over() {
    if (options_.schedule != nullptr) return search_.polls() >= options_.schedule->polls || !search_.differs().empty();
    if (options_.cancel.cancelled()) {
      result_.stopped = Stopped::cancelled;
      return true;
    }
    if (!timed() || used() + reserve() < options_.budget.seconds) return counted_out();
    result_.stopped = Stopped::budget;
    return true;
  }

  /// Replaying costs no budget, and must come to its end before what was used is counted again.
  bool timed() const { return options_.budget.seconds > 0 && (history_ == nullptr || fresh_); }

  double now() const { return std::chrono::duration<double>(clock_.now() - began_).count(); }
  /// Without the time that the device was others': the budget is for this search.
  double worked() const { return now() - waited_; }
  double used() const { return options_.seconds_used + worked(); }

  /// What an elite takes to be measured: as the last one did, or by what screening takes.
  double final_seconds() const {
    if (final_seconds_ > 0) return final_seconds_;
    return screened_ == 0 ? 0 : screens_a_final * (screened_until_ - fresh_since_) / static_cast<double>(screened_);
  }

  /// Of the budget, for the elites.
  double reserve() const {
    double elites = 0;
    for (std::size_t i = 0; i < search_.specs().size(); ++i) {
      if (!search_.specs()[i].alternative)
        elites += std::min(elites_a_region, static_cast<double>(search_.region(i).ranking().size()));
    }
    return std::min(most_for_finals * options_.budget.seconds, elites * final_seconds());
  }

  bool finals_over() const {
    if (options_.schedule != nullptr) return finals_ >= options_.schedule->finals;
    return timed() && finals_ > 0 && !options_.cancel.cancelled() && used() + final_seconds() > options_.budget.seconds;
  }

  bool counted_out() {
    if (options_.budget.evaluations <= 0 || result_.evaluations < options_.budget.evaluations) return false;
    result_.stopped = Stopped::budget;
    return true;
  }

  /// One phase: screening or finals, until it is over.
  Status drive(bool finals) {
    while (true) {
      // Elites that are measured at the same time only wait for each other; and what one takes decides about the next.
      const int window = finals ? 1 : std::max(options_.window, 1);
      while (static_cast<int>(flying_.size()) < window && !(finals ? finals_over() : over())) {
        auto ask = finals ? search_.ask_final() : search_.ask();
        if (!ask) break;
        PLANISH_CHECK(launch(std::move(*ask)));
      }
      if (flying_.empty()) {
        // What was just told may have opened new ways (a climb that found a neighbour), or the phase is over.
        if (finals ? finals_over() : over()) return {};
        auto ask = finals ? search_.ask_final() : search_.ask();
        if (ask) {
          PLANISH_CHECK(launch(std::move(*ask)));
          continue;
        }
        if (finals || !search_.expecting()) return {};
        fresh_ = true;  // waiting costs of the budget, or it would have no end
        search_.wait_for_coders(coder_patience);
        continue;
      }
      PLANISH_CHECK(land());
      if (result_.stopped == Stopped::out_of_time) return {};
    }
  }

  Status launch(Ask ask) {
    const RegionSpec& region = search_.specs()[ask.region];
    if (!ask.origin.seat.empty() && !ask.full) PLANISH_CHECK(sink_.turn(region, ask));
    auto built = coder::build(*region.domain, ask.proposal);
    if (!built) {
      PLANISH_CHECK(sink_.not_built(region, ask, built.error()));
      Told told;
      told.error = std::move(built.error());
      PLANISH_TRY(auto answer, search_.tell(ask.serial, told));
      (void)answer;
      return {};
    }
    // Two genomes may emit the same code; only the first is worth evaluating.
    const std::string& identity = built->variant.empty() ? built->hash : built->variant;
    if (!ask.full && search_.claim_program(ask, identity)) {
      sink_.duplicate(region);
      PLANISH_TRY(auto answer, search_.tell_duplicate(ask.serial));
      (void)answer;
      return {};
    }
    InFlight flight{std::move(ask), std::move(*built), false, 0, {}};
    ++result_.evaluations;
    finals_ += screening_ ? 0 : 1;
    if (history_ != nullptr) {
      if (auto known = history_->recall(region, flight.candidate.hash, flight.ask.full)) {
        std::promise<Result<Evaluation>> ready;
        ready.set_value(std::move(*known));
        flight.evaluation = ready.get_future();
        flight.recalled = true;
        ++result_.recalled;
        flying_.push_back(std::move(flight));
        return {};
      }
    }
    if (!fresh_) fresh_since_ = worked();
    fresh_ = true;
    flight.began = now();
    flying_.push_back(std::move(flight));
    InFlight& stored = flying_.back();  // deque: references survive push_back and pop_front of others
    stored.evaluation =
        std::async(options_.window > 1 ? std::launch::async : std::launch::deferred, [this, &region, &stored] {
          return evaluator_.evaluate(region, stored.candidate, stored.ask.full, stored.ask.give_up_ms);
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
      if (error.kind != "out_of_time") return std::unexpected(error);
      result_.stopped = Stopped::out_of_time;
      return {};
    }
    if (!flight.recalled) {
      waited_ += evaluation->waited_seconds;
      if (flight.ask.full) {
        final_seconds_ = now() - flight.began - evaluation->waited_seconds;
      } else {
        ++screened_;
        screened_until_ = worked();
      }
    }
    const RegionSpec& region = search_.specs()[flight.ask.region];
    const Told told = told_of(region, flight, *evaluation);
    PLANISH_TRY(auto answer, search_.tell(flight.ask.serial, told));
    PLANISH_CHECK(sink_.record(region, flight.ask, flight.candidate, *evaluation, answer, flight.recalled));
    flying_.pop_front();
    return {};
  }

  Told told_of(const RegionSpec& region, const InFlight& flight, const Evaluation& evaluation) const {
    Told told;
    told.ok = evaluation.ok() && evaluation.bench && evaluation.bench->median_ms > 0;
    told.slow = evaluation.outcome == Outcome::given_up;
    told.lost = evaluation.outcome == Outcome::infrastructure;
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
    if (options_.advisor != nullptr && !flight.ask.full) {
      const bool seat = flight.ask.seat.has_value();
      const auto* genome = coder::genome_of(flight.ask.proposal);
      Advice advice =
          options_.advisor->advise(region, evaluation, genome != nullptr ? *genome : codegen::Genome{},
                                   genome != nullptr ? region.domain->genes() : std::vector<codegen::Gene>{}, seat);
      told.moves = std::move(advice.moves);
      told.advice = std::move(advice.text);
      told.issue = std::move(advice.issue);
      if (seat) told.evaluation = std::make_shared<const Evaluation>(evaluation);
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
  bool fresh_ = false;     ///< something was evaluated that no history knew
  bool screening_ = true;  ///< no finals yet
  int finals_ = 0;         ///< asked for
  double waited_ = 0;      ///< of all evaluations, for other processes on the device
  double final_seconds_ = 0, fresh_since_ = 0, screened_until_ = 0;
  std::int64_t screened_ = 0;  ///< new ones that were told
};

}  // namespace

Result<RunResult> run_search(Search& search, Evaluator& evaluator, History* history, EvaluationSink& sink,
                             const Clock& clock, const RunOptions& options) {
  return Loop(search, evaluator, history, sink, clock, options).run();
}

}  // namespace planish::search
