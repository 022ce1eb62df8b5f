#pragma once

#include "codegen/genome.h"

/// Devices that tests emit for.
namespace planish::codegen {

inline Device h200() {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  return device;
}

}  // namespace planish::codegen
