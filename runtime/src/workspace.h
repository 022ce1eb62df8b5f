#pragma once

#include <cstdint>
#include <vector>

#include "document.h"

/// Where temps live inside one allocation. Temps that are never alive in the same step may share bytes.
namespace planish::rt {

constexpr std::int64_t workspace_alignment = 256;

struct Layout {
  std::vector<std::int64_t> offsets;  ///< by buffer; -1: not in the workspace (no temp, or no kernel touches it)
  std::int64_t bytes = 0;
};

/// Alive from the first step that touches a buffer to the last, both included. Largest first, each at the lowest free
/// offset.
Layout plan_workspace(const Document& document);

}  // namespace planish::rt
