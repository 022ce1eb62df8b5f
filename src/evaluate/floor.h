#pragma once

#include <string>

#include "evaluate/api.h"

namespace planish {

/// Why a run of `median_ms` that writes `output_bytes` cannot have done so on this device; empty where it can have.
/// Only what must be written counts (of inputs a program may need a part), less what caches may still hold, against a
/// bandwidth that is generous towards the program: the measured one of a copy may have been disturbed.
std::string faster_than_possible(const DeviceFacts& device, double output_bytes, double median_ms);

}  // namespace planish
