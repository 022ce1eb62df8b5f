#pragma once

// Include from .cpp files only (base/json.h). A run as `runs` and `show` give it.
#include "base/json.h"
#include "store/store.h"

namespace planish::cli {

/// Seconds since 1970 in local time; "-" for 0.
std::string when(double seconds);
Json run_json(const store::RunRecord& run);

}  // namespace planish::cli
