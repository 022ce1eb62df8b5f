#include "evaluate/floor.h"

#include <fmt/core.h>

#include <algorithm>

#include "backend/backend.h"

namespace planish {

std::string faster_than_possible(const DeviceFacts& device, const NeededWork& work, double median_ms) {
  if (median_ms < 0) return {};
  const backend::Backend::Certainty& certainty = backend::named(device.target).certainty;
  const double slack = certainty.bandwidth;
  const double bytes = work.output_bytes + work.input_bytes;
  const double least_bytes = bytes - certainty.caches * static_cast<double>(device.l2_bytes);
  if (least_bytes > 0 && device.bandwidth_gbs > 0 && median_ms < least_bytes / (slack * device.bandwidth_gbs * 1e6)) {
    return fmt::format("faster than the memory allows: {:.0f} MB in {:.4g} ms, where {:.0f} GB/s take {:.4g} ms",
                       bytes / 1e6, median_ms, device.bandwidth_gbs, bytes / (device.bandwidth_gbs * 1e6));
  }
  const double peak = std::max(device.peak_gflops, device.tensor_gflops);
  if (certainty.arithmetic && work.flops > 0 && peak > 0 && median_ms < work.flops / (slack * peak * 1e6)) {
    return fmt::format(
        "faster than the arithmetic allows: {:.3g} GFLOP in {:.4g} ms, where {:.0f} GFLOP/s take {:.4g} ms",
        work.flops / 1e9, median_ms, peak, work.flops / (peak * 1e6));
  }
  return {};
}

}  // namespace planish
