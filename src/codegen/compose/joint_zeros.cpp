#include "codegen/compose/joint_zeros.h"

#include <fmt/format.h>

#include <string>

namespace planish::codegen {
namespace {

constexpr int threads = 256;
constexpr std::int64_t word = 4, most_bytes = 1 << 18;

}  // namespace

bool can_be_zeroed_jointly(std::int64_t bytes) {
  return bytes % word == 0 && bytes <= most_bytes;
}

std::pair<program::KernelSource, program::Launch> joint_zeros(
    const std::vector<std::pair<int, std::int64_t>>& buffers) {
  program::Launch launch;
  std::string parameters, chosen;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& [buffer, bytes] = buffers[i];
    launch.args.emplace_back(program::BufferArg{buffer});
    parameters += fmt::format("{}unsigned* __restrict__ a{}", i == 0 ? "" : ", ", i);
    chosen += fmt::format("  {}if (blockIdx.x == {}) {{ to = a{}; count = {}; }}\n", i == 0 ? "" : "else ", i, i,
                          bytes / word);
  }
  launch.grid[0] = static_cast<std::int64_t>(buffers.size());
  launch.block[0] = threads;
  program::KernelSource source;
  source.language = "cuda";
  source.entry = "planish_kernel";
  source.source = fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({0}) planish_kernel({1}) {{\n  unsigned* to = a0;\n"
      "  int count = 0;\n{2}  for (int i = threadIdx.x; i < count; i += {0}) to[i] = 0u;\n}}\n",
      threads, parameters, chosen);
  return {std::move(source), std::move(launch)};
}

}  // namespace planish::codegen
