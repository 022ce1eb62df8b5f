#include "codegen/contraction/pooled.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/folded_epilogue.h"
#include "codegen/contraction/pooled_epilogue.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/emit/cuda_math.h"
#include "codegen/emit/expression.h"
#include "codegen/epilogue_machine.h"
#include "codegen/interpreter.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"
#include "codegen/product_sums.h"

namespace planish::codegen {
namespace {

using contraction::Product;
using samples::Convolved;
using Values = std::vector<std::int64_t>;

/// Small enough to be interpreted point by point.
std::vector<Convolved> small() {
  return {
      {.x = {2, 4, 7, 9}, .w = {5, 4, 3, 3}, .chain = true, .pool = {2, 2}},
      {.x = {1, 4, 9, 10}, .w = {3, 4, 3, 3}, .padding = 1, .residual = true, .pool = {3, 3}, .average = true},
      {.x = {1, 3, 5, 6, 7}, .w = {4, 3, 2, 2, 2}, .chain = true, .pool = {2, 2, 2}},
      {.x = {2, 3, 29}, .w = {4, 3, 5}, .padding = 2, .pool = {4}},
      {.x = {1, 8, 17, 24}, .w = {4, 8, 3, 3}, .stride = 2, .padding = 1, .chain = true, .pool = {2, 1}},
      {.x = {1, 4, 6, 12},
       .w = {6, 2, 3, 3},
       .padding = 1,
       .groups = 2,
       .chain = true,
       .pool = {1, 4},
       .average = true},
      {.x = {2, 8, 9, 8}, .w = {3, 8, 3, 1}, .pool = {2, 2}},
  };
}

/// Windows of a tensor with `shape`, whose last dims they are of, folded one by one.
std::vector<double> pooled(const std::vector<double>& x, const Values& shape, const Values& sizes, bool average) {
  const std::size_t front = shape.size() - sizes.size();
  Values out = shape;
  for (std::size_t d = 0; d < sizes.size(); ++d) out[front + d] /= sizes[d];
  std::int64_t count = 1, taps = 1;
  for (const std::int64_t extent : out) count *= extent;
  for (const std::int64_t size : sizes) taps *= size;
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i) {
    double fold = average ? 0 : -std::numeric_limits<double>::infinity();
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::int64_t left = i, within = tap, place = 0, stride = 1;
      for (std::size_t d = shape.size(); d-- > 0;) {
        std::int64_t at = left % out[d];
        left /= out[d];
        if (d >= front) {
          at = at * sizes[d - front] + within % sizes[d - front];
          within /= sizes[d - front];
        }
        place += at * stride;
        stride *= shape[d];
      }
      const double value = x.at(static_cast<std::size_t>(place));
      fold = average ? fold + value / static_cast<double>(taps) : std::max(fold, value);
    }
    result.push_back(std::tanh(fold));
  }
  return result;
}

/// run(sums, in, out): all tiles of a plan, as the main loop hands them on.
std::string source_of(const Product& product, const contraction::TilePlan& plan, bool in_registers) {
  const auto epilogue = in_registers ? contraction::print_folded_epilogue(product, plan)
                                     : contraction::print_pooled_epilogue(product, plan);
  const auto& problem = product.problem;
  const auto extents = contraction::extents_of(problem, plan);
  std::string arguments;
  for (const int i : epilogue.inputs) arguments += fmt::format("in[{}], ", i);
  std::string text = std::string(epilogue_machine) + epilogue_warp + std::string(printing::prelude(false)) +
                     std::string(printing::math_prelude());
  text += epilogue.text;
  text += "static void all_of(int lane, const float* sums, const float** in, float* out) {\n";
  std::string runs;
  for (const std::int64_t run : problem.folding->runs) runs += fmt::format("{}, ", run);
  text += fmt::format("  const long long runs[] = {{{}}};\n", runs);
  text += fmt::format("  for (int batch = 0; batch < {}; ++batch) for (int y = 0; y < {}; y += {})\n", problem.batches,
                      problem.m, in_registers ? 16 : 8);
  text += fmt::format("  for (int x = 0; x < {}; x += {}) {{\n", extents.rows_b, plan.bn);
  if (problem.has_runs()) {
    // Tile by tile of a line, line by line, the last dim's lines fastest.
    const std::int64_t tiles = contraction::line_tiles(problem, plan);
    text += fmt::format("    long long tile = x / {}, first = tile % {} * {}, line = tile / {};\n", plan.bn, tiles,
                        contraction::run_step(problem, plan), tiles);
    const auto& lines = problem.folding->lines;
    for (std::size_t i = lines.size(); i-- > 0;)
      text += fmt::format("    first += line % {0} * {1}; line /= {0};\n", lines[i].count, lines[i].step);
  } else {
    text += "    long long first = x;\n";
  }
  text += fmt::format(
      "    auto sums_at = [=](int r, int c) {{ const long long at = first + runs[c / {0}] + c % {0}; return y + r < "
      "{1} "
      "&& at < {2} ? sums[(batch * {1}ll + y + r) * {2} + at] : NAN; }};\n",
      contraction::run_columns(problem, plan), problem.m, problem.n);
  if (in_registers) {  // as the tensor core leaves them
    text += fmt::format(
        "    float v[{0} / 2];\n    for (int i = 0; i < {0} / 2; ++i)\n"
        "      v[i] = sums_at(lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2);\n"
        "    fold_sums<{0}, false>({1}out, batch, y, x, 0x7fffffff, lane, v);\n",
        plan.bn, arguments);
  } else {
    text += fmt::format("    store_sums<8, {}, false>({}out, batch, y, x, 0x7fffffff, lane, sums_at);\n",
                        (plan.bn + 31) / 32 * 32, arguments);
  }
  text +=
      "  }\n}\nextern \"C\" void run(const float* sums, const float** in, float* out) {\n"
      "  warp([&](int lane) { all_of(lane, sums, in, out); });\n}\n";
  return text;
}

/// What a tile plan of `bn` columns stores, from sums that are right.
std::vector<double> stored(const Product& product, const Tensors& inputs, const std::vector<float>& sums, int bn,
                           bool in_registers) {
  contraction::TilePlan plan;
  plan.bm = 64;
  plan.consumers = 1;
  plan.bn = bn;
  plan = contraction::with_strips(product.problem, plan);
  const Compiled compiled(source_of(product, plan, in_registers), "-O0 -ffp-contract=off -w -std=c++20");
  auto* run = compiled.function<void(const float*, const float**, float*)>("run");
  std::vector<std::vector<float>> in;
  std::vector<const float*> pointers;
  for (const auto& one : inputs) in.emplace_back(one.begin(), one.end());
  for (const auto& one : in) pointers.push_back(one.data());
  std::int64_t count = 1;
  for (const std::int64_t extent : product.kernel.outputs[0].shape) count *= extent;
  std::vector<float> out(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
  run(sums.data(), pointers.data(), out.data());
  return {out.begin(), out.end()};
}

LowerLimits with_products() {
  LowerLimits limits;
  limits.contractions = true;
  return limits;
}

samples::ContractionSample layer(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t size) {
  return samples::contraction_sample("linear_pool", "", 0, [=](GraphBuilder& g) {
    const int a = g.input({m, k}), b = g.input({n, k});
    const int y = g.node("linear.default", {V("input", a), V("weight", b)}, {m, n});
    return samples::with_pool(g, y, {m, n}, {size}, false, DType::f32);
  });
}

}  // namespace

TEST_CASE("windows over a convolution mean what the convolution means, folded afterwards") {
  for (Convolved how : small()) {
    const auto whole = samples::conv_sample(how);
    CAPTURE(whole.python);
    REQUIRE(whole.kernel.anchor == Anchor::contraction);
    REQUIRE(whole.kernel.across > 0);
    const Values sizes = std::exchange(how.pool, {});
    const auto apart = samples::conv_sample(how);
    const auto inputs = random_inputs(apart.kernel);
    const auto same = in_order_of(whole.kernel, apart.kernel, inputs);
    const auto results = Interpreter(apart.kernel, inputs).run()[0];
    check_close(Interpreter(whole.kernel, same).run()[0],
                pooled(results, apart.kernel.outputs[0].shape, sizes, how.average), 1e-12);
  }
}

TEST_CASE("tiles of any width store every window once, folded of its own elements") {
  std::vector<samples::ContractionSample> all;
  for (const Convolved& how : small()) all.push_back(samples::conv_sample(how));
  all.push_back(layer(11, 24, 10, 3));
  std::size_t tried = 0, in_runs = 0;
  for (const auto& sample : all) {
    CAPTURE(sample.python);
    const auto product = contraction::product_of(sample.kernel);
    REQUIRE(product);
    REQUIRE(product->problem.folding);
    const auto inputs = random_inputs(product->kernel);
    const auto wanted = Interpreter(sample.kernel, inputs).run()[0];
    const auto sums = sums_of(*product, inputs);
    in_runs += product->problem.runs() > 1 ? 1 : 0;
    for (const int each : {1, 2, 5}) {
      const int bn = each * contraction::least_columns(product->problem);
      if (bn > 256) continue;
      CAPTURE(bn);
      for (const bool in_registers : {false, true})
        check_close(stored(*product, inputs, sums, bn, in_registers), wanted, 2e-6);
      ++tried;
    }
  }
  CHECK(tried >= 20);
  CHECK(in_runs >= 4);
}

TEST_CASE("every pooled kernel has seeds, each legal and emitted, and none splits its sum") {
  for (const auto& sample : samples::pooled_samples(true)) {
    CAPTURE(sample.python);
    const auto guesses = seeds(sample.kernel, h200());
    CHECK(guesses.size() >= 2);
    for (const Genome& genome : guesses) {
      CHECK(illegal(sample.kernel, h200(), genome) == "");
      CHECK(genome.at("split") == 1);
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted);
      CHECK(emit(sample.kernel, h200(), genome)->source == emitted->source);
    }
  }
}

TEST_CASE("windows of any size that a tile holds have guesses, and larger ones are no such kernel's") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t size : {2, 3, 5, 7, 9, 11, 13, 16, 17, 31, 63}) {
      CAPTURE(size);
      const auto sample = samples::contraction_sample("linear_pool", "", 0, [&](GraphBuilder& g) {
        const int a = g.input({256, 512}, dtype), b = g.input({size * 128, 512}, dtype);
        const int y = g.node("linear.default", {V("input", a), V("weight", b)}, {256, size * 128}, dtype);
        return samples::with_pool(g, y, {256, size * 128}, {size}, false, dtype);
      });
      REQUIRE(sample.kernel.anchor == Anchor::contraction);
      const bool can = tensor_cores_lack(sample.kernel, h200()).empty();
      CHECK(can == (size <= (dtype == DType::f32 ? 16 : 31)));
      CHECK(seeds(sample.kernel, h200()).empty() == !can);
    }
  }
  for (const Values& sizes : std::vector<Values>{{5, 5}, {3, 3}, {2, 7}, {8, 1}, {7, 2}}) {
    const auto sample = samples::conv_sample({.x = {2, 32, 64, 64}, .w = {64, 32, 3, 3}, .padding = 1, .pool = sizes});
    REQUIRE(sample.kernel.anchor == Anchor::contraction);
    REQUIRE(tensor_cores_lack(sample.kernel, h200()).empty());
    CHECK_FALSE(seeds(sample.kernel, h200()).empty());
  }
}

TEST_CASE("a pool costs its convolution no more than the elements that it folds") {
  Convolved how{.x = {2, 16, 14, 22}, .w = {24, 16, 3, 3}, .chain = true, .pool = {2, 2}};
  const Cost with = cost(samples::conv_sample(how).kernel);
  how.pool.clear();
  const Cost without = cost(samples::conv_sample(how).kernel);
  const double elements = 2 * 24 * 12 * 20;
  CHECK(with.products == without.products);
  CHECK(with.flops - without.flops > 0);
  CHECK(with.flops - without.flops < 10 * elements);  // the fold, and a hyperbolic tangent for every fourth
  CHECK(with.bytes == without.bytes - 4 * elements * 3 / 4);
}

TEST_CASE("tiles that do not hold whole windows are illegal") {
  const auto sample = samples::conv_sample({.x = {2, 16, 14, 22}, .w = {24, 16, 3, 3}, .pool = {2, 2}});
  Genome genome = seeds(sample.kernel, h200()).front();
  const auto product = contraction::product_of(sample.kernel);
  REQUIRE(product);
  REQUIRE(product->problem.runs() == 2);
  contraction::TilePlan plan;
  plan = contraction::with_strips(product->problem, plan);
  plan.bn = 24;
  const auto told = contraction::check(product->problem, plan);
  REQUIRE_FALSE(told);
  CHECK(told.error().message == "bn is a multiple of 8 for each run of a window's rows");
  plan.bn = 128;
  plan.exchange = 64;
  CHECK(contraction::check(product->problem, plan));  // windows of two are folded in registers
  const auto odd =
      contraction::product_of(samples::conv_sample({.x = {2, 16, 14, 22}, .w = {24, 16, 3, 3}, .pool = {2, 3}}).kernel);
  REQUIRE(odd);
  CHECK(contraction::check(odd->problem, contraction::with_strips(odd->problem, plan)).error().message ==
        "a tile's columns are folded from one exchange");
  genome["split"] = 2;
  CHECK(illegal(sample.kernel, h200(), genome) != "");
}

TEST_CASE("a device without tensor cores has no kernels of windows over products") {
  const auto sample = samples::conv_sample({.x = {2, 16, 14, 22}, .w = {24, 16, 3, 3}, .pool = {2, 2}});
  Device older = h200();
  older.arch = "sm_80";
  CHECK(seeds(sample.kernel, older).empty());
  CHECK(emit(sample.kernel, older, {}).error().message == "the schedule cannot be used: the device has no wgmma");
}

TEST_CASE("a convolution and the pool behind it can be one kernel, and stay two where windows overlap or are padded") {
  const auto joins = [](std::int64_t size, std::int64_t stride, std::int64_t padding) {
    GraphBuilder g;
    const int x = g.input({8, 16, 34, 34}), w = g.input({32, 16, 3, 3});
    const int y = g.node("conv2d.default", {V("input", x), V("weight", w)}, {8, 32, 32, 32});
    const int z = g.node("relu.default", {V("self", y)}, {8, 32, 32, 32});
    const std::int64_t rows = (32 + 2 * padding - size) / stride + 1;
    g.output(g.node(
        "max_pool2d.default",
        {V("self", z), L("kernel_size", {size, size}), L("stride", {stride, stride}), L("padding", {padding, padding})},
        {8, 32, rows, rows}));
    PartitionOptions options;
    options.limits = with_products();
    const auto cut = partition(g.graph, options);
    REQUIRE(cut);
    FusionOptions fusion_options;
    fusion_options.limits = with_products();
    return std::ranges::any_of(fusion_plans(g.graph, *cut, h200(), fusion_options), [](const FusionPlan& way) {
      return way.by.size() == 1 && way.by[0].kernel.anchor == Anchor::contraction && way.by[0].kernel.across > 0;
    });
  };
  CHECK(joins(2, 2, 0));
  CHECK(joins(3, 3, 0));
  CHECK_FALSE(joins(3, 2, 0));
  CHECK_FALSE(joins(2, 2, 1));
}

TEST_CASE("windows over a strided transposed convolution are folds of phases, where as many strides fit them") {
  const auto pooled = [](std::int64_t window) {
    GraphBuilder g;
    const int x = g.input({2, 8, 6, 6}), w = g.input({8, 12, 4, 4});
    const int y = g.node("conv_transpose2d.input",
                         {V("input", x), V("weight", w), L("stride", {2, 2}), L("padding", {1, 1})}, {2, 12, 12, 12});
    const int out = samples::with_pool(g, y, {2, 12, 12, 12}, {window, window}, false, DType::f32);
    return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), std::vector<int>{out}, with_products());
  };
  const auto kernel = pooled(2);
  REQUIRE(kernel);
  const auto product = contraction::product_of(*kernel);
  REQUIRE(product);
  CHECK(product->pool->whole);
  CHECK(product->problem.folding->window == 4);
  // Elements around a window, which either of its results needs a part of.
  CHECK(product->implicit->dims.back().taps == 3);
  CHECK_FALSE(pooled(3));
  // Windows of 6 reach further than twice as far as a place.
  CHECK_FALSE(pooled(6));
}

}  // namespace planish::codegen
