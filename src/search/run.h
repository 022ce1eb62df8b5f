#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "coder/domain.h"
#include "evaluate/evaluation.h"
#include "search/budget.h"
#include "search/search.h"

namespace planish::search {

/// What search asks of the world. The command line fills these; tests use fakes.

/// Puts a candidate through the tiers. Called from several threads at once.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Result<Evaluation> evaluate(const RegionSpec& region, const coder::Candidate& candidate, bool full,
                                      double give_up_ms) = 0;
};

/// What an earlier, interrupted run has measured. One thread.
class History {
 public:
  virtual ~History() = default;
  virtual std::optional<Evaluation> recall(const RegionSpec& region, const std::string& program, bool full) = 0;
};

/// Is told of everything as it happens. One thread.
class EvaluationSink {
 public:
  virtual ~EvaluationSink() = default;
  /// `recalled`: it came from History and is in the store already.
  virtual Status record(const RegionSpec& region, const Ask& ask, const coder::Candidate& candidate,
                        const Evaluation& evaluation, Answer answer, bool recalled) = 0;
  virtual void duplicate(const RegionSpec& region) = 0;
  /// The candidate could not be emitted.
  virtual Status not_built(const RegionSpec& region, const Ask& ask, const Error& error) = 0;
  /// A coder's turn, before anything is done with its proposal: what no replay could derive again.
  virtual Status turn(const RegionSpec& region, const Ask& ask) = 0;
};

struct RunOptions {
  Budget budget;
  /// Evaluations under way at once, so that one compiles while another is timed. Results are told in the order of
  /// the asks whatever order they arrive in: the same values give the same run.
  int window = 1;
  /// Seconds of the budget that were used before (a resumed run).
  double seconds_used = 0;
  /// A cancelled search still measures its elites, so that there is something to ship.
  CancelToken cancel;
  /// cuda | cpu: how cells are read.
  std::string target = "cuda";
  /// Suggests moves after each evaluation. Borrowed; may be null.
  const Advisor* advisor = nullptr;
  /// A course that was taken once: when screening and finals end is read there, not from the clock. Borrowed; may be
  /// null.
  const Schedule* schedule = nullptr;
};

enum class Stopped : std::uint8_t { budget, exhausted, cancelled, out_of_time };

struct RunResult {
  Stopped stopped = Stopped::exhausted;
  std::int64_t evaluations = 0;  ///< new ones and recalled ones, without duplicates
  std::int64_t recalled = 0;
  std::int64_t polls = 0, finals = 0;  ///< of screening and finals, as in Schedule
};

/// Searches until the budget, the ideas or the patience end, then measures the elites at level full. The seconds of the
/// budget are for both: screening ends when what is left is needed for the elites, and of these at least one is
/// measured, then as many as there is time for. Where the evaluator answers `out_of_time`, that is the end, with what
/// there is. Winners are in `search`. Errors are those of the sink (a full disk) and of the evaluator (`closed`,
/// `environment`).
Result<RunResult> run_search(Search& search, Evaluator& evaluator, History* history, EvaluationSink& sink,
                             const Clock& clock, const RunOptions& options);

}  // namespace planish::search
