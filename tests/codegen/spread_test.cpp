// Sums over more of a product's results than a tile has: what lowers to one, and what is printed of it run on the CPU,
// a thread for each lane, since lanes ask each other.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cross_tile_epilogue.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/nonfinite_fix_up.h"
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
  samples::ContractionSample whole, apart;  ///< with the sums, and without
  std::string sums;
};

std::vector<Pair> small() {
  std::vector<Pair> all;
  for (Convolved how : std::vector<Convolved>{
           {.x = {3, 4, 7, 9}, .w = {8, 4, 3, 3}, .chain = true, .sums = "batch"},
           {.x = {3, 4, 12, 11}, .w = {12, 4, 3, 3}, .padding = 1, .sums = "group"},
           {.x = {2, 3, 5, 6, 7}, .w = {24, 3, 2, 2, 2}, .chain = true, .sums = "squeeze"},
           {.x = {2, 3, 89}, .w = {8, 3, 5}, .padding = 2, .sums = "only_squeeze"},
           {.x = {5, 8, 13, 14}, .w = {40, 8, 3, 3}, .stride = 2, .padding = 1, .residual = true, .sums = "group"},
           {.x = {2, 5, 6, 7}, .w = {36, 5, 1, 1}, .chain = true, .sums = "batch"},
           {.x = {2, 8, 9, 9}, .w = {8, 4, 3, 3}, .padding = 1, .groups = 2, .sums = "squeeze"},
           {.x = {3, 9, 9, 40}, .w = {12, 9, 1, 1}, .sums = "rows"},
           {.x = {3, 4, 12, 11}, .w = {12, 4, 3, 3}, .padding = 1, .chain = true, .sums = "only_group"},
           {.x = {3, 4, 7, 9}, .w = {8, 4, 3, 3}, .sums = "only_batch"},
           {.x = {2, 16, 6, 28}, .w = {64, 16, 3, 3}, .chain = true, .along = true, .sums = "batch"},
           {.x = {2, 16, 6, 50}, .w = {64, 16, 3, 9}, .chain = true, .along = true, .sums = "group"},
       }) {
    auto whole = samples::conv_sample(how);
    std::string sums = std::exchange(how.sums, {});
    all.push_back({std::move(whole), samples::conv_sample(how), std::move(sums)});
  }
  for (Transposed how : std::vector<Transposed>{
           {.x = {2, 4, 9, 8}, .w = {4, 12, 4, 4}, .stride = {2}, .padding = {1}, .chain = true, .sums = "batch"},
           {.x = {2, 4, 9, 8}, .w = {4, 8, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .sums = "group"},
           {.x = {2, 3, 5, 4, 7}, .w = {3, 8, 2, 2, 2}, .stride = {2}, .sums = "only_squeeze"},
           {.x = {3, 4, 9, 8}, .w = {4, 12, 3, 3}, .padding = {1}, .sums = "batch"},
           {.x = {2, 4, 9, 8}, .w = {4, 8, 3, 3}, .stride = {2}, .padding = {1}, .more = {1}, .sums = "only_group"},
       }) {
    auto whole = samples::transposed_sample(how);
    std::string sums = std::exchange(how.sums, {});
    all.push_back({std::move(whole), samples::transposed_sample(how), std::move(sums)});
  }
  for (const char* sums : {"rows", "batch"})
    all.push_back({samples::summed_layer(40, 77, 12, sums), samples::summed_layer(40, 77, 12, ""), sums});
  return all;
}

struct Moments {
  std::vector<double> mean, rstd;  ///< by setting of what is kept
};

/// Of a tensor: over all but what `sums` keeps, which `key` numbers.
Moments moments(const std::vector<double>& x, const std::vector<std::int64_t>& shape, const std::string& sums) {
  const std::int64_t channels = shape[1];
  std::int64_t plane = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) plane *= shape[d];
  const auto key = [&](std::int64_t i) {
    const std::int64_t n = i / plane / channels, c = i / plane % channels;
    return sums.ends_with("batch")   ? c
           : sums.ends_with("group") ? n * (channels / 4) + c / 4
           : sums.ends_with("rows")  ? i / shape.back()
                                     : i / plane;
  };
  const auto count = static_cast<std::int64_t>(x.size());
  const auto keys = static_cast<std::size_t>(sums.ends_with("batch") ? channels : key(count - 1) + 1);
  Moments out{std::vector<double>(keys, 0), std::vector<double>(keys, 0)};
  const double each = static_cast<double>(count) / static_cast<double>(keys);
  for (std::int64_t i = 0; i < count; ++i)
    out.mean.at(static_cast<std::size_t>(key(i))) += x.at(static_cast<std::size_t>(i)) / each;
  for (std::int64_t i = 0; i < count; ++i) {
    const double distance = x.at(static_cast<std::size_t>(i)) - out.mean.at(static_cast<std::size_t>(key(i)));
    out.rstd.at(static_cast<std::size_t>(key(i))) += distance * distance / each;
  }
  for (double& one : out.rstd) one = 1 / std::sqrt(one + 1e-5);
  return out;
}

constexpr const char* machine = R"(#include <cstdlib>
#include <vector>
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
struct Index { int x; };
static Index block_of[32], thread_of[32];
#define blockIdx block_of[own]
#define threadIdx thread_of[own]
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline void __syncthreads() { std::abort(); }  // one warp a result here
static inline int __syncthreads_or(int any) { return 1; }
static inline bool is_finite(float v) { return std::isfinite(v); }
)";

std::string body_of(const std::string& source) {
  return source.substr(source.find("// ---- kernel ----"));
}

/// "in[2], out[0], pieces": what a launch is given.
std::string given(const std::vector<int>& inputs, const std::vector<int>& outputs) {
  std::string text;
  for (const int i : inputs) text += fmt::format("in[{}], ", i);
  for (const int o : outputs) text += fmt::format("out[{}], ", o);
  return text;
}

/// run(sums, in, out, pieces, mends): all tiles of a plan, as the main loop hands them on; where there is something to
/// mend, with `mends` in place of what these made of pieces; and what joins them.
std::string source_of(const Product& product, const contraction::TilePlan& plan) {
  const int step = contraction::tile_step(plan);
  const auto epilogue = contraction::print_cross_tile_epilogue(
      product, plan, {.interleave = plan.overlap != product.overlap[0], .overlap = plan.overlap, .step = step});
  const auto joining = contraction::print_cross_tile_joining(product, plan, false);
  const auto& problem = product.problem;
  const contraction::CrossTileReduction& cross_tile = *product.cross_tile;
  const std::vector<int> elements(cross_tile.order.begin(),
                                  cross_tile.order.begin() + static_cast<std::ptrdiff_t>(cross_tile.elements));
  const std::vector<int> folded(cross_tile.order.begin() + static_cast<std::ptrdiff_t>(cross_tile.elements),
                                cross_tile.order.end());
  const int width = std::min(plan.exchange, plan.bn);
  std::string text = std::string(epilogue_machine) + epilogue_warp + machine + std::string(printing::prelude(false)) +
                     std::string(printing::math_prelude()) + epilogue.text;
  const std::string arguments = given(epilogue.inputs, elements) + "pieces, batch, ";
  text += "static void all_of(int lane, const float* sums, const float** in, float** out, float* pieces) {\n";
  text += fmt::format(
      "  auto at = [=](int batch, int y, int x) {{ return y < {0} && x < {1} ? sums[(batch * {0}ll + y) * {1} + x] : "
      "NAN; "
      "}};\n  for (int batch = 0; batch < {2}; ++batch) {{\n",
      problem.m, problem.n, problem.batches);
  // As the tensor core leaves them.
  if (epilogue.folds)
    text += fmt::format(
        "  for (int y = 0; y < {0}; y += 16) for (int t = 0; t < {1}; t += {4}) {{\n    float v[{2} / 2];\n"
        "    for (int i = 0; i < {2} / 2; ++i) v[i] = at(batch, y + lane / 4 + i / 2 % 2 * 8, t + i / 4 * 8 + lane % 4 "
        "* 2 + "
        "i % 2);\n    fold_sums<{2}, false>({3}y, t, min(t + {4}, {1}), lane, v);\n  }}\n",
        problem.m, problem.n, plan.bn, arguments, step);
  if (epilogue.stores)
    text += fmt::format(
        "  for (int y = 0; y < {0}; y += 8) for (int t = 0; t < {1}; t += {6}) for (int x = t; x < t + {2}; x += {3})\n"
        "    store_sums<8, {4}, false>({5}y, x, min(t + {6}, {1}), lane, [=](int r, int c) {{ return at(batch, y + r, "
        "x "
        "+ c); }}{7});\n",
        problem.m, problem.n, plan.bn, width, (width + 31) / 32 * 32, arguments, step, epilogue.begins ? ", t" : "");
  text += "  }\n}\n";
  text += "namespace joins {\n" + body_of(joining.source) + "}\n";
  text += fmt::format(
      "static void join(int lane, const float** in, float** out, float* pieces) {{\n"
      "  for (int block = 0; block < {}; ++block) for (int warp = 0; warp < {}; ++warp) {{\n"
      "    blockIdx.x = block, threadIdx.x = warp * 32 + lane;\n    joins::planish_kernel(pieces, {}",
      joining.blocks, joining.threads / 32, given(joining.inputs, folded));
  text.resize(text.size() - 2);
  text += ");\n  }\n}\n";
  std::string fix_up;
  if (contraction::wasted(product)) {
    const auto pieces = contraction::print_piece_fix_up(product, plan, 1);
    std::string body = body_of(pieces.source);
    body.replace(body.find("planish_kernel"), 14, "mend_kernel");
    text += "namespace mends {\n" + body + "}\n";
    fix_up = fmt::format(
        "  if (again) {{\n    std::vector<int> notes(2 * {}, 1);\n    for (int block = 0; block < {}; ++block) for "
        "(int "
        "thread = 0; thread < {}; ++thread) {{\n      blockIdx.x = block, threadIdx.x = thread;\n      "
        "mends::mend_kernel({}pieces, notes.data());\n    }}\n  }}\n",
        contraction::noted_images(product), pieces.blocks, pieces.threads, given(pieces.inputs, {}));
  }
  text +=
      "extern \"C\" void run(const float* sums, const float** in, float** out, float* pieces, long long count, int "
      "again) "
      "{\n  warp([&](int lane) { all_of(lane, sums, in, out, pieces); });\n"
      "  if (again) for (long long i = 0; i < count; ++i) pieces[i] = NAN;\n" +
      fix_up + "  warp([&](int lane) { join(lane, in, out, pieces); });\n}\n";
  return text;
}

/// The outputs, from sums that are right.
std::vector<std::vector<double>> stored(const Product& product, const Tensors& inputs, const std::vector<float>& sums,
                                        const contraction::TilePlan& plan, bool mends) {
  const Compiled compiled(source_of(product, plan), "-O0 -ffp-contract=off -w -std=c++20");
  auto* run = compiled.function<void(const float*, const float**, float**, float*, long long, int)>("run");
  std::vector<std::vector<float>> in, out(product.kernel.outputs.size());
  std::vector<const float*> pointers;
  std::vector<float*> results(out.size());
  for (const auto& one : inputs) in.emplace_back(one.begin(), one.end());
  for (const auto& one : in) pointers.push_back(one.data());
  for (std::size_t o = 0; o < out.size(); ++o) {
    std::int64_t count = 1;
    for (const std::int64_t extent : product.kernel.outputs[o].shape) count *= extent;
    const auto place = static_cast<std::size_t>(product.cross_tile->order[o]);
    out[place].assign(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
    results[place] = out[place].data();
  }
  const auto count =
      static_cast<std::size_t>(contraction::cross_tile_bytes(*product.cross_tile, product.problem, plan) / 4);
  std::vector<float> pieces(count, std::numeric_limits<float>::quiet_NaN());
  run(sums.data(), pointers.data(), results.data(), pieces.data(), static_cast<long long>(count), mends ? 1 : 0);
  std::vector<std::vector<double>> all;
  for (const auto& one : out) all.emplace_back(one.begin(), one.end());
  return all;
}

double largest_of(const std::vector<double>& all) {
  return std::abs(*std::ranges::max_element(all, {}, [](double x) { return std::abs(x); }));
}

}  // namespace

TEST_CASE("pieces of any width come to what all results are summed up to, and elements are stored beside them") {
  std::size_t tried = 0, several_runs = 0, phases = 0, mended = 0, registers = 0, overlapping = 0;
  const auto pairs = small();
  for (std::size_t number = 0; number < pairs.size(); ++number) {
    const Pair& pair = pairs[number];
    CAPTURE(pair.whole.python);
    REQUIRE(pair.whole.kernel.anchor == Anchor::contraction);
    const auto product = contraction::product_of(pair.whole.kernel);
    REQUIRE(product);
    REQUIRE(product->cross_tile);
    const auto inputs = random_inputs(pair.apart.kernel);
    const auto y = Interpreter(pair.apart.kernel, inputs).run()[0];
    const auto wanted = moments(y, pair.apart.kernel.outputs[0].shape, pair.sums);
    const auto same = in_order_of(pair.whole.kernel, pair.apart.kernel, inputs);
    const auto sums = sums_of(*product, same);
    const bool stores = product->cross_tile->elements > 0, wastes = contraction::wasted(*product).has_value();
    phases += product->kernel.outputs.front().where.empty() ? 0 : 1;
    registers += product->cross_tile->in_registers ? 1 : 0;
    // Two of these for each.
    const std::vector<std::pair<int, int>> widths{{32, 32}, {64, 32}, {200, 128}, {256, 256}, {80, 64}};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& [bn, exchange] = widths[(number + 2 * i) % widths.size()];
      contraction::TilePlan plan;
      plan.bn = bn;
      plan.exchange = exchange;
      CAPTURE(bn);
      // Tiles that share columns count each result once.
      const int shared = std::max(product->overlap[0], product->overlap[1]);
      if ((i == 1 || number % 2 == 1) && shared <= contraction::most_overlap(bn)) plan.overlap = shared;
      overlapping += plan.overlap > 0 ? 1 : 0;
      several_runs += contraction::pieces_of(*product->cross_tile, product->problem, plan).slots > 1 ? 1 : 0;
      for (const bool mends : {false, true}) {
        if (mends && (!wastes || i > 0)) continue;
        const auto got = stored(*product, same, sums, plan, mends);
        if (stores) check_close(got[0], y, 2e-6 * (1 + largest_of(y)));
        check_close(got[stores ? 1 : 0], wanted.mean, 2e-6 * (1 + largest_of(y)));
        if (got.size() == (stores ? 3 : 2)) check_close(got.back(), wanted.rstd, 4e-6 * (1 + largest_of(wanted.rstd)));
        mended += mends ? 1 : 0;
        ++tried;
      }
    }
  }
  CHECK(tried >= 30);
  CHECK(several_runs >= 8);
  CHECK(phases >= 4);
  CHECK(registers >= 12);
  CHECK(registers < pairs.size());
  CHECK(mended >= 4);
  CHECK(overlapping >= 3);
}

TEST_CASE("every kernel that sums up its results has seeds, each legal and emitted with a launch that joins pieces") {
  for (const auto& sample : samples::spread_samples(true)) {
    CAPTURE(sample.python);
    REQUIRE(tensor_cores_lack(sample.kernel, h200()).empty());
    const auto genomes = seeds(sample.kernel, h200());
    REQUIRE(!genomes.empty());
    for (const Genome& genome : genomes) {
      CHECK(value_of(genome, "split", 1) == 1);
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted);
      const bool joins = std::ranges::any_of(emitted->after, [](const Emitted& one) {
        return one.source.find("const float* __restrict__ pieces") != std::string::npos;
      });
      CHECK(joins);
    }
  }
}

namespace {

/// A convolution of 8 channels by 3 × 3, padded, whose results have `shape`.
int convolution(GraphBuilder& g, const std::vector<std::int64_t>& shape) {
  const int x = g.input({shape[0], 8, shape[2], shape[3]}), w = g.input({shape[1], 8, 3, 3});
  return g.node(
      "conv2d.default",
      {V("input", x), V("weight", w), L("stride", {1, 1}), L("padding", {1, 1}), L("dilation", {1, 1}), I("groups", 1)},
      shape);
}

/// The kernel of a convolution of 24 channels and what `more` makes of it.
Result<Kernel> convolved(const std::function<std::vector<int>(GraphBuilder&, int)>& more) {
  GraphBuilder g;
  const std::vector<int> outputs = more(g, convolution(g, {2, 24, 14, 14}));
  LowerLimits limits;
  limits.contractions = true;
  return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs, limits);
}

bool is_cross_tile(const Result<Kernel>& kernel) {
  if (!kernel || kernel->anchor != Anchor::contraction) return false;
  const auto product = contraction::product_of(*kernel);
  return product && product->cross_tile;
}

}  // namespace

TEST_CASE("what is no sum of results alone is not summed up in pieces") {
  const auto over = [](const char* op, std::vector<std::int64_t> dims, std::vector<std::int64_t> shape) {
    return convolved([&](GraphBuilder& g, int y) {
      return std::vector<int>{y, g.node(op, {V("self", y), L("dim", dims), B("keepdim", false)}, shape)};
    });
  };
  CHECK(is_cross_tile(over("sum.dim_IntList", {2, 3}, {2, 24})));
  CHECK(is_cross_tile(over("mean.dim", {0, 2, 3}, {24})));
  CHECK_FALSE(is_cross_tile(over("amax.default", {2, 3}, {2, 24})));      // a maximum
  CHECK_FALSE(is_cross_tile(over("sum.dim_IntList", {3}, {2, 24, 14})));  // of few columns
  CHECK_FALSE(is_cross_tile(over("sum.dim_IntList", {1}, {2, 14, 14})));  // of rows
  // Of lines behind which there are places that are no results.
  const auto lines = [](std::int64_t channels) {
    return samples::conv_sample({.x = {2, channels, 14, 40}, .w = {8, channels, 3, 3}, .padding = 1, .sums = "rows"});
  };
  CHECK_FALSE(is_cross_tile(lines(8).kernel));
  CHECK_FALSE(is_cross_tile(lines(16).kernel));
  // Elements that need what all of them are summed up to.
  CHECK_FALSE(is_cross_tile(convolved([](GraphBuilder& g, int y) {
    const int mean = g.node("mean.dim", {V("self", y), L("dim", {2, 3}), B("keepdim", true)}, {2, 24, 1, 1});
    return std::vector<int>{g.node("sub.Tensor", {V("self", y), V("other", mean)}, {2, 24, 14, 14}), mean};
  })));
  // Distances from something that is not the mean of what they are taken of.
  const auto squares = [](double factor) {
    return convolved([&](GraphBuilder& g, int y) {
      const int mean = g.node("mean.dim", {V("self", y), L("dim", {2, 3}), B("keepdim", true)}, {2, 24, 1, 1});
      const int other = g.node("mul.Tensor", {V("self", mean), F("other", factor)}, {2, 24, 1, 1});
      const int away = g.node("sub.Tensor", {V("self", y), V("other", other)}, {2, 24, 14, 14});
      const int square = g.node("mul.Tensor", {V("self", away), V("other", away)}, {2, 24, 14, 14});
      return std::vector<int>{
          y, g.node("sum.dim_IntList", {V("self", square), L("dim", {2, 3}), B("keepdim", false)}, {2, 24})};
    });
  };
  CHECK(is_cross_tile(squares(1)));
  CHECK_FALSE(is_cross_tile(squares(2)));
}

TEST_CASE("a convolution takes in the statistics of the norm behind it, which then folds nothing") {
  GraphBuilder g;
  const int y = convolution(g, {16, 64, 64, 64});
  const int normed = g.value({16, 64, 64, 64}), mean = g.value({16, 16}), rstd = g.value({16, 16});
  g.graph.nodes.push_back({"aten.native_group_norm.default",
                           {V("input", y), I("N", 16), I("C", 64), I("HxW", 4096), I("group", 16), F("eps", 1e-5)},
                           {normed, mean, rstd}});
  g.output(g.node("max_pool2d.default", {V("self", normed), L("kernel_size", {4, 4}), L("stride", {4, 4})},
                  {16, 64, 16, 16}));
  PartitionOptions options;
  options.limits.contractions = true;
  FusionOptions fusion;
  fusion.limits = options.limits;
  const auto apart = partition(g.graph, options);
  REQUIRE(apart);
  REQUIRE(apart->regions.size() == 3);
  const auto joined = with_epilogues(g.graph, *apart, h200(), fusion);
  REQUIRE(joined.regions.size() == 2);
  CHECK(is_cross_tile(joined.regions[0].kernel));
  CHECK(joined.regions[0].outputs == std::vector<int>{y, mean, rstd});
  CHECK(joined.regions[1].kernel.anchor == Anchor::pointwise);
  CHECK(cost(joined.regions[0]).bytes < cost(apart->regions[0]).bytes + 1e6);
}

namespace {

/// How a graph is cut with products that take along what they can, and the other ways.
struct Ways {
  Partition joined;
  std::vector<FusionPlan> plans;
};
Ways ways_of(const ir::Graph& graph) {
  PartitionOptions options;
  options.limits.contractions = true;
  FusionOptions fusion;
  fusion.limits = options.limits;
  Device device = h200();
  device.tensor_rate = 16;
  const auto apart = partition(graph, options);
  REQUIRE(apart);
  Ways out{with_epilogues(graph, *apart, device, fusion), {}};
  out.plans = fusion_plans(graph, out.joined, device, fusion);
  return out;
}

/// Of a norm of a convolution's results, `more` of which is wanted: the two kernels that compute the convolution twice.
std::vector<Region> twice(const std::function<int(GraphBuilder&, int y, int normed)>& more) {
  GraphBuilder g;
  const std::vector<std::int64_t> shape{16, 64, 64, 64};
  const int y = convolution(g, shape);
  const int normed = g.value(shape), mean = g.value({16, 16}), rstd = g.value({16, 16});
  g.graph.nodes.push_back({"aten.native_group_norm.default",
                           {V("input", y), I("N", 16), I("C", 64), I("HxW", 4096), I("group", 16), F("eps", 1e-5)},
                           {normed, mean, rstd}});
  g.output(more(g, y, normed));
  Ways ways = ways_of(g.graph);
  for (FusionPlan& plan : ways.plans) {
    if (plan.replaces.size() != 2 || plan.by.size() != 2 || plan.by[0].outputs != std::vector<int>{mean, rstd})
      continue;
    CHECK(fuse_by(g.graph, ways.joined, {&plan}));
    CHECK(plan.by[1].given == std::vector<int>{mean, rstd});
    return std::move(plan.by);
  }
  return {};
}

}  // namespace

TEST_CASE("a convolution may be computed once for the statistics of its norm and once for what follows") {
  const std::vector<std::int64_t> shape{16, 64, 64, 64};
  const auto pooled = [](GraphBuilder& g, int, int normed) {
    return g.node("max_pool2d.default", {V("self", normed), L("kernel_size", {4, 4}), L("stride", {4, 4})},
                  {16, 64, 16, 16});
  };
  // Of what is 64 MB only the input is read, and a sixteenth is stored.
  std::vector<Region> by = twice(pooled);
  REQUIRE(by.size() == 2);
  CHECK(is_cross_tile(by[0].kernel));
  CHECK(by[1].kernel.anchor == Anchor::contraction);
  CHECK(cost(by[0]).bytes + cost(by[1]).bytes < 12e6);
  // Folds of channels that are in groups for the norm.
  by = twice([](GraphBuilder& g, int y, int normed) {
    const int sum = g.node("add.Tensor", {V("self", y), V("other", normed)}, {16, 64, 64, 64});
    return g.node("logsumexp.default", {V("self", sum), L("dim", {1}), B("keepdim", true)}, {16, 1, 64, 64});
  });
  REQUIRE(by.size() == 2);
  CHECK(contraction::product_of(by[1].kernel)->pool->whole);
  // Element by element.
  by = twice([&](GraphBuilder& g, int, int normed) { return g.node("relu.default", {V("self", normed)}, shape); });
  REQUIRE(by.size() == 2);
  CHECK(by[1].kernel.anchor == Anchor::contraction);
  // A kernel behind that could not be one with the norm.
  by = twice([&](GraphBuilder& g, int, int normed) {
    const int bound = g.node("clamp.default", {V("self", normed), F("min", -1), F("max", 1)}, shape);
    const int largest = g.node("amax.default", {V("self", bound), L("dim", {1}), B("keepdim", true)}, {16, 1, 64, 64});
    return g.node("relu.default", {V("self", largest)}, {16, 1, 64, 64});
  });
  REQUIRE(by.size() == 2);
  CHECK(cost(by[0]).bytes + cost(by[1]).bytes < 5e6);
  // Results that somebody else reads are stored whatever is done.
  by = twice([&](GraphBuilder& g, int y, int normed) {
    g.output(y);
    return pooled(g, y, normed);
  });
  CHECK(by.empty());
}

TEST_CASE("a softmax over channels, and the pool behind it, join a convolution that is computed twice") {
  GraphBuilder g;
  const std::vector<std::int64_t> shape{16, 32, 64, 64}, one{16, 1, 64, 64};
  const int y = convolution(g, shape);
  const int shares = g.node("_softmax.default", {V("self", y), I("dim", 1), B("half_to_float", false)}, shape);
  // What capture adds: the statistics by themselves.
  const int most = g.node("amax.default", {V("self", y), L("dim", {1}), B("keepdim", true)}, one);
  const int less = g.node("sub.Tensor", {V("self", y), V("other", most), I("alpha", 1)}, shape);
  const int power = g.node("exp.default", {V("self", less)}, shape);
  const int sum = g.node("sum.dim_IntList", {V("self", power), L("dim", {1}), B("keepdim", true)}, one);
  g.output(g.node("max_pool2d.default", {V("self", shares), L("kernel_size", {4, 4}), L("stride", {4, 4})},
                  {16, 32, 16, 16}));
  const std::vector<FusionPlan> plans = ways_of(g.graph).plans;
  const auto found = std::ranges::find_if(plans, [&](const FusionPlan& plan) {
    return plan.by.size() == 2 && plan.by[0].outputs == std::vector<int>{most, sum};
  });
  REQUIRE(found != plans.end());
  CHECK(found->replaces.size() == 3);
  CHECK(found->by[1].kernel.anchor == Anchor::contraction);
  CHECK(found->by[1].kernel.across == 2);
}

TEST_CASE("what does not come from a product's results is not folded in the registers that hold them") {
  const auto kernel = convolved([](GraphBuilder& g, int y) {
    const int gate = g.input({1, 24, 1, 1});
    const int two = g.node("full_like.default", {V("self", y), F("fill_value", 2)}, {2, 24, 14, 14});
    const int z = g.node("mul.Tensor", {V("self", two), V("other", gate)}, {2, 24, 14, 14});
    const int mean = g.node("mean.dim", {V("self", z), L("dim", {2, 3}), B("keepdim", false)}, {2, 24});
    return std::vector<int>{y, mean};
  });
  REQUIRE(is_cross_tile(kernel));
  CHECK_FALSE(contraction::product_of(*kernel)->cross_tile->in_registers);
}

}  // namespace planish::codegen
