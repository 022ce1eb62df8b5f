#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evaluate/evaluation.h"

namespace planish {

/// What the driver's management library says, loaded with dlopen. Without it everything is 0. Thread-safe.
class Nvml {
 public:
  Nvml();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// The device by its UUID ("GPU-…").
  Clocks clocks(const std::string& uuid) const;
  /// Highest memory clock × bus width × 2 transfers, in 10⁹ bytes a second.
  double nominal_bandwidth_gbs(const std::string& uuid) const;
  /// UUIDs of the machine's devices, in the driver's order; whatever CUDA_VISIBLE_DEVICES says.
  std::vector<std::string> uuids() const;
  /// Highest SM clock in MHz.
  int max_sm_mhz(const std::string& uuid) const;

 private:
  struct Api;
  std::unique_ptr<Api> api_;
  void* device(const std::string& uuid) const;
};

}  // namespace planish
