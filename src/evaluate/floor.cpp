#include "evaluate/floor.h"

#include <fmt/core.h>

namespace planish {

std::string faster_than_possible(const DeviceFacts& device, double output_bytes, double median_ms) {
  // A GPU's bandwidth is known to a tenth. A CPU's was measured within a quarter of a second, perhaps beside other
  // work, and its last cache may be a part of a larger one.
  const bool cuda = device.target == "cuda";
  const double slack = cuda ? 1.5 : 6, caches = cuda ? 1 : 4;
  const double least_bytes = output_bytes - caches * static_cast<double>(device.l2_bytes);
  if (least_bytes <= 0 || device.bandwidth_gbs <= 0 || median_ms < 0) return {};
  const double floor_ms = least_bytes / (slack * device.bandwidth_gbs * 1e6);
  if (median_ms >= floor_ms) return {};
  return fmt::format(
      "faster than the memory allows: {:.0f} MB of outputs in {:.4g} ms, where {:.0f} GB/s take {:.4g} ms",
      output_bytes / 1e6, median_ms, device.bandwidth_gbs, output_bytes / (device.bandwidth_gbs * 1e6));
}

}  // namespace planish
