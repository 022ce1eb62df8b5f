#include "evaluate/floor.h"

#include <fmt/core.h>

#include <algorithm>

namespace planish {

std::string faster_than_possible(const DeviceFacts& device, const NeededWork& work, double median_ms) {
  if (median_ms < 0) return {};
  // A GPU's bandwidth is known to a tenth. A CPU's was measured within a quarter of a second, perhaps beside other
  // work, and its last cache may be a part of a larger one.
  const bool cuda = device.target == "cuda";
  const double slack = cuda ? 1.5 : 6, caches = cuda ? 1 : 4;
  const double bytes = work.output_bytes + work.input_bytes;
  const double least_bytes = bytes - caches * static_cast<double>(device.l2_bytes);
  if (least_bytes > 0 && device.bandwidth_gbs > 0 && median_ms < least_bytes / (slack * device.bandwidth_gbs * 1e6)) {
    return fmt::format("faster than the memory allows: {:.0f} MB in {:.4g} ms, where {:.0f} GB/s take {:.4g} ms",
                       bytes / 1e6, median_ms, device.bandwidth_gbs, bytes / (device.bandwidth_gbs * 1e6));
  }
  const double peak = std::max(device.peak_gflops, device.tensor_gflops);
  if (cuda && work.flops > 0 && peak > 0 && median_ms < work.flops / (slack * peak * 1e6)) {
    return fmt::format(
        "faster than the arithmetic allows: {:.3g} GFLOP in {:.4g} ms, where {:.0f} GFLOP/s take {:.4g} ms",
        work.flops / 1e9, median_ms, peak, work.flops / (peak * 1e6));
  }
  return {};
}

}  // namespace planish
