#include "judge/occupancy.h"

#include <algorithm>
#include <array>
#include <utility>

namespace planish::judge {
namespace {

constexpr std::int64_t warp_size = 32;
constexpr std::int64_t parts = 4;            // schedulers, each with its own quarter of the registers
constexpr std::int64_t register_unit = 256;  // registers are handed out to a warp in these
constexpr std::int64_t shared_unit = 128;

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Occupancy occupancy(const backend::Architecture& limits, const BlockNeeds& needs) {
  Occupancy out;
  if (needs.threads <= 0) return out;
  const std::int64_t warps = (needs.threads + warp_size - 1) / warp_size;
  const std::int64_t warp_registers = round_up(std::max<std::int64_t>(needs.registers, 1) * warp_size, register_unit);
  // A warp lives in one part: registers left over in the others do not help it.
  const std::int64_t warps_by_registers = limits.registers / parts / warp_registers * parts;
  const std::int64_t shared = round_up(needs.shared_bytes + limits.reserved_shared, shared_unit);
  const std::array<std::pair<const char*, std::int64_t>, 4> each{
      {{"warps", limits.warps / warps},
       {"registers", warps_by_registers / warps},
       {"shared", shared > 0 ? limits.shared_bytes / shared : limits.blocks},
       {"blocks", limits.blocks}}};
  const auto* least = &each.back();
  for (const auto& limit : each) {
    if (limit.second < least->second) least = &limit;
  }
  out.blocks = static_cast<int>(least->second);
  out.limiter = least->first;
  out.warps = static_cast<int>(least->second * warps);
  out.fraction = static_cast<double>(out.warps) / limits.warps;
  return out;
}

}  // namespace planish::judge
