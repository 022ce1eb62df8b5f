#pragma once

#include "backend/backend.h"
#include "evaluate/api.h"
#include "evaluate/nvml.h"
#include "worker/messages.h"

namespace planish {

/// How the devices of a target are found and described: its part of what an evaluator does.
class DeviceProbe {
 public:
  virtual ~DeviceProbe() = default;
  /// Whether this machine looks as if it had one. `auto` takes the first target of which that is so.
  virtual bool present() const = 0;
  /// What it is called that there is none: "no GPU that can be used was found".
  virtual const char* missing() const = 0;
  /// Those that processes can be bound to one by one, with commas between, as CUDA_VISIBLE_DEVICES takes them and
  /// allows them now; empty where there is one for all.
  virtual std::string devices() const { return {}; }
  /// Fills in what is behind the roofline. `facts` has what the runner's hello says of any device.
  virtual void describe(const worker::HelloReply& hello, const Nvml& nvml, DeviceFacts& facts) const = 0;
};
/// Null where a target brought none: nothing can be measured for it here.
const DeviceProbe* probe_of(const backend::Backend& target);

/// The facts behind the roofline. On a GPU from the runner's hello, the driver, and what was measured on its kind; on
/// the CPU a stream copy is timed (under 0.3 s), once a process.
DeviceFacts device_facts(const std::string& target, const worker::HelloReply& hello, const Nvml& nvml);

/// The -march value for this CPU: an x86-64 level rather than a model's name, so that a binary and its cache entry mean
/// the same on every machine that can run it.
std::string cpu_arch();

/// The least time the work can take: bytes at the device's bandwidth or flops at its peak, whichever is longer.
Roofline roofline_of(const DeviceFacts& device, double bytes, double flops, double median_ms);

}  // namespace planish
