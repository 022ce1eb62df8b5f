#pragma once

#include <memory>

#include "cli/plan.h"

namespace planish::cli {

/// Partition, kernels and composition of src/codegen.
std::unique_ptr<Planner> make_planner();

}  // namespace planish::cli
