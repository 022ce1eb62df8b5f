#include "codegen/compose/even_launches.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <variant>

#include "codegen/emit/cuda_limits.h"

namespace planish::codegen {
namespace {

using program::Launch;
using program::Program;

bool takes_half(const Launch& launch, const Device& device) {
  return launch.grid == std::array<std::int64_t, 3>{device.sms, 1, 1} && launch.shared == printing::half_shared(device);
}

/// Kernels that permit the launch behind them before they end, by what their texts say (sm90/dependent.cuh).
class Permits {
 public:
  explicit Permits(const Program& program) : program_(program) {}

  bool operator()(int kernel) {
    const auto [found, fresh] = known_.try_emplace(kernel);
    if (fresh)
      found->second =
          program_.kernels[static_cast<std::size_t>(kernel)].source.contains("griddepcontrol.launch_dependents");
    return found->second;
  }

 private:
  const Program& program_;
  std::map<int, bool> known_;
};

}  // namespace

void keep_launches_even(Program& program, const Device& device) {
  Permits permits(program);
  const Launch* before = nullptr;
  for (auto& step : program.steps) {
    auto* const launch = std::get_if<Launch>(&step);
    if (launch != nullptr && launch->programmatic && before != nullptr && takes_half(*launch, device) &&
        !takes_half(*before, device) && permits(before->kernel))
      launch->programmatic = false;
    before = launch;
  }
}

}  // namespace planish::codegen
