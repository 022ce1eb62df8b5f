#include "codegen/compose/early_reads.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "codegen/attention/decode.h"
#include "codegen/compose/kernels.h"

namespace planish::codegen {
namespace {

void read_early(program::Program& program, program::Launch& launch, const KernelOrigin& origin, const Device& device) {
  const Kernel& kernel = origin.region->kernel;
  const auto attention = attention_of(kernel);
  if (!attention) return;
  const auto decode = decode_of(kernel, *attention);
  if (!decode) return;
  const std::vector<int> inputs = inputs_of_keys(kernel, *attention, *decode);
  const bool there = std::ranges::all_of(inputs, [&](int input) {
    const int buffer = buffer_of(launch, origin, Emitted::Argument::Kind::input, input);
    return buffer >= 0 && is_never_written(program, buffer);
  });
  if (!there) return;
  DecodeWrites none;
  none.early = true;
  const auto emitted = emit_decode(kernel, *attention, *decode, device, *origin.emitted->few_queries, none);
  if (!emitted || emitted->args.size() != launch.args.size()) return;
  launch.kernel = kernel_number(program, {emitted->language, emitted->entry, emitted->flags, emitted->source});
}

}  // namespace

void read_early(program::Program& program, const std::map<int, KernelOrigin>& origins, const Device& device) {
  // The first launch has none before it.
  bool first = true;
  for (auto& step : program.steps) {
    auto* const launch = std::get_if<program::Launch>(&step);
    if (!std::exchange(first, false) && launch != nullptr && launch->programmatic) {
      const auto origin = origins.find(launch->kernel);
      if (origin != origins.end() && origin->second.emitted->few_queries)
        read_early(program, *launch, origin->second, device);
    }
  }
}

}  // namespace planish::codegen
