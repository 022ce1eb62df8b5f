#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace planish::session {

/// Sorts by time, and two made in the same second differ.
std::string new_run_id(Clock& clock);
/// What may be a run's id: letters, digits, `-` and `_`, at most 64 of them. Kind `usage`.
Status check_run_id(const std::string& id);

}  // namespace planish::session
