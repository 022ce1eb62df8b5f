#pragma once

#include <string>

#include "base/file.h"

/// Whether the command that works on a run is still there. A killed command cannot write that it ended: the lock that
/// it held says so.
namespace planish::cli {

/// Held by the one command that works on the run, for as long as it does. Error kind `busy` where another one does.
Result<FileLock> lock_run(const std::string& run);
/// The state to show: `killed` for a run that is stored as `running` and whose lock nobody holds.
std::string live_state(const std::string& run, const std::string& stored_state);

}  // namespace planish::cli
