#pragma once

#include "base/clock.h"

namespace planish::session {

/// How the seconds of --max-time are shared among the phases of a run: what comes last (proving what ships, timing it
/// beside the baselines) keeps its share, whatever came before. Seconds count from the beginning of this part of a run:
/// --resume has a limit of its own. One thread.
class TimePlan {
 public:
  /// `max_seconds` 0: no limit.
  TimePlan(const Clock& clock, double max_seconds);

  /// Since the run began.
  double used() const;
  bool limited() const { return max_ > 0; }
  /// Until the end; infinity without a limit.
  double left() const;

  /// What capturing and checking the captured program took: what follows repeats much of it.
  void took(double capture_seconds, double check_seconds);
  /// How many torch.compile modes are to be compiled and timed at the end.
  void compiles(int modes) { modes_ = modes; }

  /// For what is found: until the proof must begin.
  double for_search() const;
  /// For what the search still waits for then: a candidate that is cut off in the middle of an oracle's answer costs
  /// the oracle, and another one captures the model again.
  double for_last_answers() const;
  /// For putting together what was found, without which there is nothing to prove: half of what the proof keeps, too.
  double for_composing() const;
  /// For the proof: until the timing must begin.
  double for_proof() const;
  /// What the proof may take, as far as can be told now; 0 where nothing is known.
  double proof_estimate() const;

  /// The default of --max-time for a search of so many seconds: twice that, and a quarter of an hour for all else. A
  /// search without such a limit (0) has none over everything either.
  static double usual(double budget_seconds) { return budget_seconds > 0 ? 2 * budget_seconds + 900 : 0; }
  /// How long each module may be timed for the claim, which ends sooner where the interval is narrow: a short search
  /// wants a short end.
  static double claim_seconds(double budget_seconds);

 private:
  double claim_reserve() const;
  double proof_reserve() const;

  const Clock& clock_;
  TimePoint began_;
  double max_;
  double capture_ = 0, check_ = 0;
  int modes_ = 0;
};

}  // namespace planish::session
