#pragma once

#include "session/phase.h"
#include "store/store.h"

namespace planish::session {

/// Seconds that the phase took in the newest run in the store that went to its end, of the same task on the same
/// device, asked for the same search time and baselines. 0 where there is none: then nobody can say.
double seconds_of_earlier_run(const store::Store& store, const store::RunRecord& now, Phase phase);

}  // namespace planish::session
