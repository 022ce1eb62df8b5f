#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "search/run.h"
#include "session/plan.h"
#include "session/progress.h"

namespace planish::session {

/// Passes a search's questions on to the evaluator. Regions that were not described to it before (those of other ways
/// to cut the task, of which most are never searched) are when the first question about them comes. Thread-safe.
class RegionEvaluator : public search::Evaluator {
 public:
  /// Borrows all. `seconds_left` (infinity: no limit) is how long an answer is waited for; called from any thread.
  RegionEvaluator(EvaluatorApi& api, std::string session, const Plan& plan, std::function<double()> seconds_left,
                  Progress& progress);
  /// A region that cannot be described fails each of its candidates with `infrastructure`.
  Result<Evaluation> evaluate(const search::RegionSpec& region, const coder::Candidate& candidate, bool full,
                              double give_up_ms) override;

 private:
  /// Why the region cannot be evaluated; nothing where it can.
  std::optional<Error> describe(const std::string& region);

  EvaluatorApi& api_;
  std::string session_;
  const Plan& plan_;
  std::function<double()> seconds_left_;
  Progress& progress_;
  std::mutex mutex_;                                       ///< of described_
  std::map<std::string, std::optional<Error>> described_;  ///< alternatives by id
};

}  // namespace planish::session
