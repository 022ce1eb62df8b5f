#include "codegen/compose/joint_zeros.h"

#include "codegen/templates/emission.h"

namespace planish::codegen {
namespace {

constexpr std::int64_t word_bytes = 4, most_bytes = 1 << 18;

}  // namespace

bool can_be_zeroed_jointly(const Device& device, std::int64_t bytes) {
  return bytes % word_bytes == 0 && bytes <= most_bytes && !emission_of(device).zeroing({bytes / word_bytes}).empty();
}

std::pair<program::KernelSource, program::Launch> joint_zeros(
    const Device& device, const std::vector<std::pair<int, std::int64_t>>& buffers) {
  program::Launch launch;
  std::vector<std::int64_t> words;
  for (const auto& [buffer, bytes] : buffers) {
    launch.args.emplace_back(program::BufferArg{buffer});
    words.push_back(bytes / word_bytes);
  }
  launch.grid[0] = static_cast<std::int64_t>(buffers.size());
  launch.block[0] = zeroing_threads;
  program::KernelSource source;
  source.language = device.target->languages.front().name;
  source.entry = "planish_kernel";
  source.source = emission_of(device).zeroing(words);
  return {std::move(source), std::move(launch)};
}

}  // namespace planish::codegen
