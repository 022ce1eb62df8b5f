#pragma once

#include <vector>

#include "evaluate/api.h"

namespace planish {

/// Adds what the tools said of a verified solution. What one found refuses it, by the tool's name: `invalid_access`,
/// `race`, `uninitialized_read`; of several the first counts.
void add_memory_checks(std::vector<worker::MemoryCheck> checks, VerifyReply& reply);

}  // namespace planish
