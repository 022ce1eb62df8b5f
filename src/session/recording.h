#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "search/run.h"
#include "session/optimize_flow.h"
#include "session/tuning_database.h"
#include "store/store.h"

namespace planish::session {

/// Keeps every evaluation of a run in the store, counts it for the result, and gives back what an earlier part of the
/// same run measured. Implements what search asks of the world beside the evaluator. One thread.
class Recording : public search::EvaluationSink, public search::History {
 public:
  Recording(store::Store& store, std::string run, std::string target, Progress& progress, Clock& clock);

  /// Loads what the run had measured before it was interrupted.
  Status load_history();
  bool has_history() const { return !known_.empty(); }
  /// Seconds of the search's budget that were used before.
  double seconds_used() const { return seconds_used_; }
  /// What is recorded of the search's proposals is also kept there, for later runs. Borrowed; may be null.
  void teach(TuningDatabase* tuning) { tuning_ = tuning; }
  /// The search begins now; `seconds` is its budget (0: none).
  void search_begins(double seconds);

  /// Keeps an evaluation of something that the search did not propose.
  Status keep(const std::string& region, const std::string& key, const std::string& program,
              const Evaluation& evaluation, bool recalled);
  std::optional<Evaluation> recall(const std::string& key, const std::string& program, bool full);

  std::optional<Evaluation> recall(const search::RegionSpec& region, const std::string& program, bool full) override;
  Status record(const search::RegionSpec& region, const search::Ask& ask, const coder::Candidate& candidate,
                const Evaluation& evaluation, search::Answer answer, bool recalled) override;
  void duplicate(const search::RegionSpec& region) override;
  Status not_built(const search::RegionSpec& region, const search::Ask& ask, const Error& error) override;
  Status turn(const search::RegionSpec& region, const search::Ask& ask) override;

  const std::map<std::string, std::map<std::string, std::int64_t>>& counts() const { return counts_; }
  /// Of what the search proposed: how many were compiled, then run on test data, then timed to the end.
  std::int64_t compiled() const { return compiled_; }
  std::int64_t tested() const { return tested_; }
  std::int64_t timed() const { return timed_; }
  /// What compiling one of them took, in the mean over those that came from no cache; 0 where none was compiled.
  double seconds_a_compilation() const { return built_ > 0 ? built_seconds_ / static_cast<double>(built_) : 0; }
  /// What seemed right on one seed and failed where the whole contract was asked of it.
  struct FailedFinal {
    std::string region;
    Outcome outcome = Outcome::wrong;
    std::string message;
    double ms = 0;  ///< as it was screened; 0 where it was not
  };
  const std::vector<FailedFinal>& failed_finals() const { return failed_finals_; }
  /// Each time that a region's best improved while the search went on.
  const std::vector<ResultDocument::Best>& best() const { return best_; }

 private:
  struct Known {
    Evaluation evaluation;
    std::int64_t asked = -1;  ///< under which number the search had asked for it
  };
  double used_now() const;
  void keep_failure(const std::string& region, const std::string& program, const Evaluation& evaluation);
  Status keep_turn(const search::RegionSpec& region, const search::Ask& ask, std::string error);
  /// Fills in what every record has, and stores it.
  Status add(store::EvaluationRecord record, const std::string& program, const Evaluation& evaluation);
  /// Counts it, and shows that it ended.
  void note(const std::string& region, const Evaluation& evaluation, const search::Origin& origin);
  store::Store& store_;
  std::string run_, target_;
  Progress& progress_;
  Clock& clock_;
  TuningDatabase* tuning_ = nullptr;
  std::map<std::tuple<std::string, std::string, bool>, Known> known_;
  std::map<std::pair<std::string, std::string>, std::string> program_of_;  ///< region, genome → program
  std::map<std::string, std::map<std::string, std::int64_t>> counts_;
  std::int64_t compiled_ = 0, tested_ = 0, timed_ = 0;
  std::map<std::pair<std::string, std::string>, double> screened_ms_;  ///< by region and hash
  std::vector<FailedFinal> failed_finals_;
  std::int64_t built_ = 0;
  double built_seconds_ = 0;
  std::vector<ResultDocument::Best> best_;
  double seconds_used_ = 0;
  double budget_ = 0;
  std::optional<TimePoint> began_;
};

}  // namespace planish::session
