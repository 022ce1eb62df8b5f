#pragma once

#include "evaluate/api.h"
#include "evaluate/nvml.h"
#include "worker/messages.h"

namespace planish {

/// The facts behind the roofline. On a GPU from the runner's hello, the driver, and what was measured on its kind; on
/// the CPU a stream copy is timed (under 0.3 s), once a process.
DeviceFacts device_facts(const std::string& target, const worker::HelloReply& hello, const Nvml& nvml);

/// The -march value for this CPU: an x86-64 level rather than a model's name, so that a binary and its cache entry mean
/// the same on every machine that can run it.
std::string cpu_arch();

/// The least time the work can take: bytes at the device's bandwidth or flops at its peak, whichever is longer.
Roofline roofline_of(const DeviceFacts& device, double bytes, double flops, double median_ms);

}  // namespace planish
