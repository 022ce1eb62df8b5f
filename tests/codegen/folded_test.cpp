// Folds over whole dims of a product's results: what lowers to one, and the printed fold run on the CPU, a thread for
// each lane, since lanes ask each other.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/folded_epilogue.h"
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
using samples::Transposed;

struct Pair {
  samples::ContractionSample whole, apart;  ///< with the fold, and without
  std::string fold;
};

std::vector<Pair> small() {
  std::vector<Pair> all;
  for (Convolved how : std::vector<Convolved>{
           {.x = {2, 4, 7, 9}, .w = {5, 4, 3, 3}, .chain = true, .fold = "amin"},
           {.x = {1, 4, 9, 10}, .w = {18, 4, 3, 3}, .padding = 1, .residual = true, .fold = "mean"},
           {.x = {1, 3, 5, 6, 7}, .w = {24, 3, 2, 2, 2}, .chain = true, .fold = "logsumexp"},
           {.x = {2, 3, 29}, .w = {8, 3, 5}, .padding = 2, .fold = "amax"},
           {.x = {1, 8, 17, 24}, .w = {40, 8, 3, 3}, .stride = 2, .padding = 1, .chain = true, .fold = "sum"},
           {.x = {2, 5, 6, 7}, .w = {33, 5, 1, 1}, .chain = true, .fold = "logsumexp"},
       }) {
    auto whole = samples::conv_sample(how);
    std::string fold = std::exchange(how.fold, {});
    all.push_back({std::move(whole), samples::conv_sample(how), std::move(fold)});
  }
  for (Transposed how : std::vector<Transposed>{
           {.x = {2, 4, 5, 6}, .w = {4, 12, 4, 4}, .stride = {2}, .padding = {1}, .more = {1}, .fold = "amin"},
           {.x = {2, 4, 5, 6}, .w = {4, 9, 4, 4}, .stride = {2}, .padding = {1}, .chain = true, .fold = "logsumexp"},
           {.x = {1, 3, 3, 4, 5}, .w = {3, 16, 2, 2, 2}, .stride = {2}, .fold = "sum"},
           {.x = {2, 4, 5, 6}, .w = {4, 10, 3, 3}, .padding = {1}, .fold = "amax"},
           {.x = {2, 4, 5, 6}, .w = {4, 9, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .fold = "logsumexp"},
       }) {
    auto whole = samples::transposed_sample(how);
    std::string fold = std::exchange(how.fold, {});
    all.push_back({std::move(whole), samples::transposed_sample(how), std::move(fold)});
  }
  return all;
}

/// All of dim 1 of a tensor with `shape`, folded; what is negative is divided by 4.
std::vector<double> folded(const std::vector<double>& x, const std::vector<std::int64_t>& shape,
                           const std::string& fold) {
  const std::int64_t channels = shape[1];
  std::int64_t places = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) places *= shape[d];
  std::vector<double> result;
  for (std::int64_t i = 0; i < shape[0] * places; ++i) {
    double most = -std::numeric_limits<double>::infinity(), least = -most, sum = 0, exps = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value = x.at(static_cast<std::size_t>((i / places * channels + c) * places + i % places));
      most = std::max(most, value);
      least = std::min(least, value);
      sum += value;
      exps += std::exp(value);
    }
    const double all = fold == "amax"   ? most
                       : fold == "amin" ? least
                       : fold == "sum"  ? sum
                       : fold == "mean" ? sum / static_cast<double>(channels)
                                        : std::log(exps);
    result.push_back(all < 0 ? all / 4 : all);
  }
  return result;
}

/// run(sums, in, out): all tiles of a plan, as the main loop hands them on.
std::string source_of(const Product& product, const contraction::TilePlan& plan) {
  const auto epilogue = contraction::print_folded_epilogue(product, plan);
  const auto& problem = product.problem;
  std::string arguments;
  for (const int i : epilogue.inputs) arguments += fmt::format("in[{}], ", i);
  std::string text = std::string(epilogue_machine) + epilogue_warp + std::string(printing::prelude(false)) +
                     std::string(printing::math_prelude());
  text += epilogue.text;
  // As the tensor core leaves them.
  text += fmt::format(
      "static void all_of(int lane, const float* sums, const float** in, float* out) {{\n"
      "  for (int batch = 0; batch < {0}; ++batch) for (int y = 0; y < {1}; y += 16) for (int x = 0; x < {2}; x += "
      "{3}) {{\n    float v[{3} / 2];\n"
      "    for (int i = 0; i < {3} / 2; ++i) {{\n"
      "      const int row = y + lane / 4 + i / 2 % 2 * 8, column = x + i / 4 * 8 + lane % 4 * 2 + i % 2;\n"
      "      v[i] = row < {1} && column < {2} ? sums[(batch * {1}ll + row) * {2} + column] : NAN;\n    }}\n"
      "    fold_sums<{3}, false>({4}out, batch, y, x, {2}, lane, v);\n  }}\n}}\n",
      problem.batches, problem.m, problem.n, plan.bn, arguments);
  text +=
      "extern \"C\" void run(const float* sums, const float** in, float* out) {\n"
      "  warp([&](int lane) { all_of(lane, sums, in, out); });\n}\n";
  return text;
}

/// What tiles of `bn` columns store, from sums that are right.
std::vector<double> stored(const Product& product, const Tensors& inputs, const std::vector<float>& sums, int bn) {
  contraction::TilePlan plan;
  plan.bn = bn;
  const Compiled compiled(source_of(product, plan), "-O0 -ffp-contract=off -w -std=c++20");
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

}  // namespace

TEST_CASE("channels folded behind a convolution mean what the convolution means, folded afterwards") {
  for (const Pair& pair : small()) {
    CAPTURE(pair.whole.python);
    REQUIRE(pair.whole.kernel.anchor == Anchor::contraction);
    REQUIRE(pair.whole.kernel.across == 1);
    const auto inputs = random_inputs(pair.apart.kernel);
    const auto results = Interpreter(pair.apart.kernel, inputs).run()[0];
    const auto same = in_order_of(pair.whole.kernel, pair.apart.kernel, inputs);
    check_close(Interpreter(pair.whole.kernel, same).run()[0],
                folded(results, pair.apart.kernel.outputs[0].shape, pair.fold), 1e-12);
  }
}

TEST_CASE("tiles of any width that hold whole folds store each once, made of its own elements") {
  std::size_t tried = 0, several = 0;
  auto wholes = samples::phased_pools();
  for (Pair& pair : small()) wholes.push_back(std::move(pair.whole));
  for (const auto& whole : wholes) {
    CAPTURE(whole.python);
    REQUIRE(whole.kernel.anchor == Anchor::contraction);
    const auto product = contraction::product_of(whole.kernel);
    REQUIRE(product);
    REQUIRE(product->pool);
    REQUIRE(product->pool->whole);
    const auto inputs = random_inputs(product->kernel);
    const auto wanted = Interpreter(whole.kernel, inputs).run()[0];
    const auto sums = sums_of(*product, inputs);
    const double largest = std::abs(*std::ranges::max_element(wanted, {}, [](double x) { return std::abs(x); }));
    several += product->problem.n > product->problem.folding->window ? 1 : 0;
    for (const int each : {1, 2, 4}) {
      const int bn = each * contraction::least_columns(product->problem);
      if (bn > 256 || (each > 1 && bn / 2 >= product->problem.n)) continue;
      CAPTURE(bn);
      check_close(stored(*product, inputs, sums, bn), wanted, 1e-6 * (1 + largest));
      ++tried;
    }
  }
  CHECK(tried >= 24);
  CHECK(several >= 6);
}

TEST_CASE("every kernel that folds channels has seeds, each legal and emitted, and none splits its sum") {
  for (const auto& sample : samples::folded_samples(true)) {
    CAPTURE(sample.python);
    const auto guesses = seeds(sample.kernel, h200());
    CHECK(guesses.size() >= 2);
    for (const Genome& genome : guesses) {
      CHECK(illegal(sample.kernel, h200(), genome) == "");
      CHECK(genome.at("split") == 1);
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted);
      CHECK(std::ranges::any_of(emitted->after, [](const Emitted& launch) {
        return launch.source.find("__shfl_xor_sync") != std::string::npos;
      }));
    }
  }
}

TEST_CASE("a convolution and the fold of its channels can be one kernel; not of positions, places or a part of them") {
  const auto joins = [](const std::string& op, std::vector<std::int64_t> dims, std::int64_t groups) {
    GraphBuilder g;
    const int x = g.input({8, 16, 34, 34}), w = g.input({32, 16 / groups, 3, 3});
    const int y = g.node("conv2d.default", {V("input", x), V("weight", w), I("groups", groups)}, {8, 32, 32, 32});
    const int z = g.node("relu.default", {V("self", y)}, {8, 32, 32, 32});
    std::vector<std::int64_t> shape{8, 32, 32, 32};
    for (const std::int64_t d : dims) shape[static_cast<std::size_t>(d)] = 1;
    if (op.starts_with("arg")) {
      g.output(g.node(op, {V("self", z), I("dim", dims[0]), B("keepdim", true)}, shape, DType::i64));
    } else {
      g.output(g.node(op, {V("self", z), L("dim", dims), B("keepdim", true)}, shape));
    }
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
  CHECK(joins("amin.default", {1}, 1));
  CHECK(joins("mean.dim", {1}, 1));
  CHECK(joins("logsumexp.default", {1}, 1));
  CHECK_FALSE(joins("argmax.default", {1}, 1));
  CHECK_FALSE(joins("amax.default", {2}, 1));
  CHECK_FALSE(joins("amax.default", {1}, 4));
}

TEST_CASE("places of a strided transposed convolution, which would be phases, are not folded as a whole") {
  for (const std::int64_t dim : {2, 3}) {
    GraphBuilder g;
    const int x = g.input({2, 4, 5, 6}), w = g.input({4, 8, 4, 4});
    const int y = g.node("conv_transpose2d.input",
                         {V("input", x), V("weight", w), L("stride", {2, 2}), L("padding", {1, 1})}, {2, 8, 10, 12});
    std::vector<std::int64_t> shape{2, 8, 10, 12};
    shape[static_cast<std::size_t>(dim)] = 1;
    const int out = g.node("amax.default", {V("self", y), L("dim", {dim}), B("keepdim", true)}, shape);
    const auto kernel =
        lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), std::vector<int>{out}, with_products());
    CHECK_FALSE(kernel);
  }
}

TEST_CASE("more channels than a tile has columns are no such kernel's") {
  for (const std::int64_t channels : {128, 136, 256, 264}) {
    CAPTURE(channels);
    const auto sample = samples::conv_sample({.x = {2, 32, 40, 40}, .w = {channels, 32, 3, 3}, .fold = "amax"});
    CHECK((sample.kernel.anchor == Anchor::contraction) == (channels <= 256));
    if (channels > 256) continue;
    const auto guesses = seeds(sample.kernel, h200());
    CHECK_FALSE(guesses.empty());
    // Three products have accumulators of their own, which leave room for 128 columns.
    CHECK(std::ranges::any_of(guesses, [](const Genome& genome) { return genome.at("passes") == 3; }) ==
          (channels <= 128));
  }
}

}  // namespace planish::codegen
