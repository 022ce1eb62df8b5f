#pragma once

#include "backend/architecture.h"
#include "codegen/genome.h"

/// Devices that tests emit for.
namespace planish::codegen {

inline Device h200() {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  return device;
}

/// Of a version before wgmma: "sm_80" is an A100, others have as many multiprocessors and what a block of theirs may
/// ask for.
inline Device older(const char* arch) {
  Device device;
  device.target = &backend::cuda();
  device.arch = arch;
  device.sms = 108;
  device.shared_bytes = backend::architecture(arch).block_shared_bytes;
  device.l2_bytes = 40 << 20;
  device.bandwidth_gbs = 1500;
  return device;
}

}  // namespace planish::codegen
