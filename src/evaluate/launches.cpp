#include "evaluate/launches.h"

#include <algorithm>

namespace planish {
namespace {

/// Of one multiprocessor, the same on every architecture from sm_80 on but for the consumer ones, where blocks and
/// threads are fewer: waves are then a little too few.
constexpr std::int64_t threads_held = 2048, blocks_held = 32, registers_held = 65536, shared_overhead = 1024;

}  // namespace

std::vector<LaunchReport> launches_of(const program::Program& program, const std::vector<KernelReport>& kernels,
                                      const DeviceFacts& device) {
  std::vector<LaunchReport> out;
  for (const program::Step& step : program.steps) {
    const auto* launch = std::get_if<program::Launch>(&step);
    if (launch == nullptr) continue;
    LaunchReport report;
    report.kernel = launch->kernel;
    report.blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
    report.threads = launch->block[0] * launch->block[1] * launch->block[2];
    report.cluster = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    report.shared_bytes = launch->shared;
    if (device.target == "cuda" && device.sms > 0 && report.threads > 0) {
      std::int64_t held = std::min(blocks_held, threads_held / report.threads);
      std::int64_t shared = report.shared_bytes;
      if (launch->kernel >= 0 && static_cast<std::size_t>(launch->kernel) < kernels.size()) {
        const KernelReport& kernel = kernels[static_cast<std::size_t>(launch->kernel)];
        shared += kernel.shared_bytes;
        if (kernel.registers > 0)
          held = std::min(held, registers_held / ((kernel.registers + 7) / 8 * 8 * report.threads));
      }
      if (device.shared_bytes > 0)
        held = std::min(held, (device.shared_bytes + shared_overhead) / (shared + shared_overhead));
      report.waves =
          static_cast<double>(report.blocks) / static_cast<double>(std::max<std::int64_t>(held, 1) * device.sms);
    }
    out.push_back(report);
  }
  return out;
}

}  // namespace planish
