#include "codegen/emit/triton_plan.h"

#include <algorithm>
#include <bit>

#include "base/rounding.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_plan.h"
#include "codegen/emit/expression.h"

namespace planish::codegen::printing {
namespace {

/// Registers, roughly: every element that a thread holds, in as many values as are alive at once.
std::int64_t words_of(const Kernel& kernel, const TritonPlan& plan) {
  const auto places = place(kernel);
  std::int64_t loaded = 0, widest_value = 1;
  for (std::size_t i = 0; i < kernel.nodes.size(); ++i) {
    const Node& node = kernel.nodes[i];
    const bool moves = plan.row ? places[i].inner : places[i].variables != 0;
    const std::int64_t words = node.dtype == DType::f64 || node.dtype == DType::i64 ? 2 : 1;
    if (moves) widest_value = std::max(widest_value, words);
    if (node.op == Op::load && moves) loaded += words;
  }
  const std::int64_t accumulators = plan.trips > 1 ? static_cast<std::int64_t>(kernel.reductions.size()) : 0;
  const std::int64_t elements = std::max<std::int64_t>(1, plan.rows * plan.block / plan.threads);
  return 20 + elements * (loaded + (accumulators + 1) * widest_value);
}

}  // namespace

TritonPlan make_triton_plan(const Kernel& kernel, const Genome& genome) {
  TritonPlan plan;
  plan.row = kernel.has_rows();
  plan.wide = !fits_int32(kernel);
  plan.fast = gene(genome, "fast", 0) != 0;
  const auto hints = gene(genome, "hints", 0);
  plan.stream_loads = (hints & 1) != 0;
  plan.stream_stores = (hints & 2) != 0;
  plan.threads = gene(genome, "threads", 128);
  const std::int64_t width = std::max<std::int64_t>(1, gene(genome, "vector", 4) / widest(kernel));
  const std::int64_t unroll = gene(genome, "unroll", 1);
  std::int64_t groups = 1;
  if (plan.row) {
    plan.rows = gene(genome, "rows", 1);
    plan.length = kernel.inner_extent();
    plan.asked = std::max<std::int64_t>(1, plan.threads / plan.rows) * width * unroll;
    groups = ceil_div(kernel.outer_extent(), plan.rows);
  } else {
    plan.length = kernel.outer_extent() * kernel.inner_extent();
    plan.asked = plan.threads * width * unroll;
  }
  const std::int64_t whole = power_of_two_above(plan.length);
  const bool held = plan.row && gene(genome, "residency", 0) != 0;
  plan.block = held ? whole : std::min(whole, plan.asked);
  plan.trips = plan.row ? ceil_div(plan.length, plan.block) : 1;
  plan.programs = plan.row ? groups : ceil_div(plan.length, plan.block);
  plan.words = words_of(kernel, plan);
  return plan;
}

}  // namespace planish::codegen::printing
