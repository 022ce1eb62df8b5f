#pragma once

#include <vector>

#include "base/result.h"
#include "patterns/library.h"
#include "store/store.h"

namespace planish::session {

/// What our own templates achieved, from the store: outcomes are filed under anchors, and count for each template of
/// theirs.
Result<std::vector<patterns::Measured>> measured_patterns(const store::Store& store);

}  // namespace planish::session
