#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "search/search.h"
#include "store/store.h"

namespace planish::session {

/// The turns that coders had in a run's search, for a search that is to decide as it did. `records` are the run's
/// evaluations. Errors: those of the store; `bad_proposal`.
Result<search::RecordedTurns> recorded_turns(const store::Store& store, const std::string& run,
                                             const std::vector<search::RegionSpec>& specs,
                                             const std::vector<store::EvaluationRecord>& records);

}  // namespace planish::session
