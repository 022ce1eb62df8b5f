#pragma once

#include <string>

#include "evaluate/api.h"
#include "evaluate/needed_work.h"

namespace planish {

/// Why a run of `median_ms` that does this work cannot have done so on this device; empty where it can have. Generous
/// towards the program: caches may hold a part of the bytes, the measured bandwidth of a copy may have been disturbed,
/// and a peak is not what is known of a device but what no device of its kind has. On the CPU operations say nothing:
/// its cores may have units for matrices.
std::string faster_than_possible(const DeviceFacts& device, const NeededWork& work, double median_ms);

}  // namespace planish
