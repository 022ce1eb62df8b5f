#pragma once

// Include from .cpp files only (base/json.h). A run as `runs` and `show` give it.
#include "base/json.h"
#include "store/store.h"
#include "suite/headline.h"

namespace planish::session {

/// Seconds since 1970 in local time; "-" for 0.
std::string when(double seconds);
/// The number that the run is known by, from its result; nothing where it has none.
std::optional<suite::Headline> headline_of_run(const store::Store& store, const store::RunRecord& run);
Json run_json(const store::RunRecord& run, const std::optional<suite::Headline>& headline);

}  // namespace planish::session
