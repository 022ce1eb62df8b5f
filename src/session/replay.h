#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "evaluate/api.h"
#include "session/plan.h"
#include "store/store.h"

namespace planish::session {

struct ReplayResult {
  std::int64_t decisions = 0;  ///< proposals of the search that were derived again and found the same
  std::int64_t finals = 0;     ///< elites measured again at the end, likewise
  /// The first decision that is not as recorded. Texts are for people; empty where there was none.
  struct Difference {
    std::int64_t asked = 0;  ///< number of the proposal
    std::string region, recorded, derived;
  };
  std::optional<Difference> difference;
};

/// What the evaluator said of the device when the run began. Error kinds: `store_corrupt`, those of a document.
Result<DeviceFacts> device_facts_of(const store::RunRecord& run);

/// Makes every decision of a run's search anew: same seed, settings and tuning records, and the evaluations that the
/// run recorded told in their order. Nothing is compiled or measured, nothing is written.
///
/// Error kinds: `not_replayable` where the run was recorded by a Planish that did not keep enough, those of the store,
/// and of the planner.
Result<ReplayResult> replay(store::Store& store, const store::RunRecord& run, Planner& planner);

}  // namespace planish::session
