#pragma once

#include <memory>

#include "session/plan.h"

namespace planish::session {

/// What emission must know of the device.
codegen::Device device_of(const DeviceFacts& facts);

/// Partition, kernels and composition of src/codegen.
std::unique_ptr<Planner> make_planner();

}  // namespace planish::session
