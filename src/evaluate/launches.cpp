#include "evaluate/launches.h"

#include <algorithm>

#include "backend/backend.h"

namespace planish {

std::vector<LaunchReport> launches_of(const program::Program& program, const std::vector<KernelReport>& kernels,
                                      const DeviceFacts& device) {
  std::vector<LaunchReport> out;
  const backend::Backend& target = backend::named(device.target);
  const backend::Backend::Held& most = target.held;
  for (const program::Step& step : program.steps) {
    const auto* launch = std::get_if<program::Launch>(&step);
    if (launch == nullptr) continue;
    LaunchReport report;
    report.kernel = launch->kernel;
    report.blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
    report.threads = launch->block[0] * launch->block[1] * launch->block[2];
    report.cluster = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    report.shared_bytes = launch->shared;
    if (target.has_grids && device.sms > 0 && report.threads > 0) {
      std::int64_t held = std::min(most.blocks, most.threads / report.threads);
      std::int64_t shared = report.shared_bytes;
      if (launch->kernel >= 0 && static_cast<std::size_t>(launch->kernel) < kernels.size()) {
        const KernelReport& kernel = kernels[static_cast<std::size_t>(launch->kernel)];
        shared += kernel.shared_bytes;
        if (kernel.registers > 0)
          held = std::min(held, most.registers / ((kernel.registers + 7) / 8 * 8 * report.threads));
      }
      if (device.shared_bytes > 0)
        held = std::min(held, (device.shared_bytes + most.shared_overhead) / (shared + most.shared_overhead));
      report.waves =
          static_cast<double>(report.blocks) / static_cast<double>(std::max<std::int64_t>(held, 1) * device.sms);
    }
    out.push_back(report);
  }
  return out;
}

}  // namespace planish
