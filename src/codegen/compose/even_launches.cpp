#include "codegen/compose/even_launches.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "backend/architecture.h"
#include "codegen/emit/cuda_limits.h"

namespace planish::codegen {
namespace {

using program::Launch;

/// Shared memory of a multiprocessor that a block takes.
std::int64_t taken(const Launch& launch) {
  return launch.shared + printing::block_overhead_bytes;
}

bool one_each(const Launch& launch, const Device& device) {
  return launch.grid == std::array<std::int64_t, 3>{device.sms, 1, 1};
}

/// Two of its blocks may lie on one multiprocessor, and none on another.
bool may_lie_unevenly(const Launch& launch, const Device& device) {
  return one_each(launch, device) && 2 * taken(launch) <= backend::architecture(device.arch).shared_bytes;
}

/// Beside each of its blocks there is room for one of half the shared memory, and where one ends not for two.
bool leaves_half(const Launch& launch, const Device& device) {
  const std::int64_t half = printing::half_shared(device), all = backend::architecture(device.arch).shared_bytes;
  return one_each(launch, device) && launch.shared >= half &&
         taken(launch) + half + printing::block_overhead_bytes <= all;
}

/// True if the kernel permits the launch behind it before it ends, by what its text says (sm90/dependent.cuh).
bool permits_next(const program::KernelSource& kernel) {
  return kernel.source.contains("griddepcontrol.launch_dependents");
}

}  // namespace

void keep_launches_even(program::Program& program, const Device& device) {
  const Launch* before = nullptr;
  for (auto& step : program.steps) {
    auto* const launch = std::get_if<Launch>(&step);
    if (launch != nullptr && launch->programmatic && before != nullptr && may_lie_unevenly(*launch, device) &&
        !leaves_half(*before, device) && permits_next(program.kernels[static_cast<std::size_t>(before->kernel)]))
      launch->programmatic = false;
    before = launch;
  }
}

}  // namespace planish::codegen
