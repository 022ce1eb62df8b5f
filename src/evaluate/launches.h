#pragma once

#include <vector>

#include "evaluate/api.h"
#include "program/program.h"

namespace planish {

/// The program's launches, with how many times over they fill the device.
std::vector<LaunchReport> launches_of(const program::Program& program, const std::vector<KernelReport>& kernels,
                                      const DeviceFacts& device);

}  // namespace planish
