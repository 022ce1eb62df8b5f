#include "codegen/partition/fusion_plans.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/contraction/contraction.h"
#include "codegen/devices.h"
#include "codegen/genome.h"
#include "codegen/lower/lower.h"
#include "codegen/sound.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::testing;

namespace {

/// Every way by itself makes a sound whole of the same outputs.
std::vector<FusionPlan> sound_ways(const ir::Graph& graph, const Partition& p) {
  auto ways = fusion_plans(graph, p, cpu());
  for (const FusionPlan& way : ways) {
    REQUIRE_FALSE(way.replaces.empty());
    CHECK(std::ranges::is_sorted(way.replaces));
    const auto whole = fuse_by(graph, p, {&way});
    REQUIRE(whole.has_value());
    CHECK(whole->regions.size() == p.regions.size() - way.replaces.size() + way.by.size());
    sound(graph, *whole);
  }
  return ways;
}

bool replaces_one(const FusionPlan& way) {
  return way.replaces.size() == 1;
}

}  // namespace

TEST_CASE("a fused row can be cut before and behind its reduction") {
  GraphBuilder g;
  const int x = g.input({64, 512});
  const int e = g.node("exp.default", {V("self", x)}, {64, 512});
  const int t = g.node("sum.dim_IntList", {V("self", e), L("dim", {1}), B("keepdim", true), N("dtype")}, {64, 1});
  g.output(g.node("div.Tensor", {V("self", e), V("other", t)}, {64, 512}));
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 1);
  const auto ways = sound_ways(g.graph, p);
  REQUIRE_FALSE(ways.empty());
  CHECK(std::ranges::all_of(ways, replaces_one));
  // The sums are stored, and the reader takes the exponentials again from x: nothing of x's size is written between.
  CHECK(std::ranges::any_of(ways, [&](const FusionPlan& way) {
    return way.by[0].outputs == std::vector<int>{t} && std::ranges::find(way.by[1].inputs, x) != way.by[1].inputs.end();
  }));
  // The exponentials are stored.
  CHECK(std::ranges::any_of(ways, [&](const FusionPlan& way) { return way.by[0].outputs == std::vector<int>{e}; }));
}

TEST_CASE("parts that have nothing to do with each other can be two kernels") {
  GraphBuilder g;
  const int x = g.input({256, 256});
  const int a = g.node("exp.default", {V("self", x)}, {256, 256});
  const int b = g.node("neg.default", {V("self", x)}, {256, 256});
  g.output(a);
  g.output(b);
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 1);
  const auto ways = sound_ways(g.graph, p);
  REQUIRE(ways.size() == 1);
  CHECK(ways[0].by[0].outputs.size() == 1);
  CHECK(ways[0].by[1].outputs.size() == 1);
}

TEST_CASE("kernels of one size that share nothing can be one launch") {
  GraphBuilder g;
  const int x = g.input({16, 32}), y = g.input({16, 32});
  const int a = g.node("exp.default", {V("self", x)}, {16, 32});
  const int b = g.node("exp.default", {V("self", y)}, {16, 32});
  g.output(a);
  g.output(b);
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  const auto ways = sound_ways(g.graph, p);
  REQUIRE(ways.size() == 1);
  CHECK(ways[0].replaces == std::vector<std::size_t>{0, 1});
  CHECK(ways[0].by[0].outputs.size() == 2);
  CHECK(ways[0].seconds < 2 * cpu().target->launch_seconds);
}

TEST_CASE("many small kernels of one size can be one launch") {
  GraphBuilder g;
  for (int i = 0; i < 5; ++i) {
    const int mean = g.input({32, 16}), now = g.input({32, 16});
    const int kept = g.node("mul.Tensor", {V("self", mean), F("other", 0.9)}, {32, 16});
    g.output(g.node("add.Tensor", {V("self", kept), V("other", now), I("alpha", 1)}, {32, 16}));
  }
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 5);
  const auto ways = sound_ways(g.graph, p);
  CHECK(
      std::ranges::any_of(ways, [](const FusionPlan& way) { return way.replaces.size() == 5 && way.by.size() == 1; }));
  CHECK(std::ranges::any_of(ways, [](const FusionPlan& way) { return way.replaces.size() == 2; }));
}

TEST_CASE("what waits for a step between them cannot be one kernel") {
  GraphBuilder g;
  const int x = g.input({4, 4});
  const int a = g.node("relu.default", {V("self", x)}, {4, 4});
  const int m = g.node("mm.default", {V("self", a), V("mat2", a)}, {4, 4});
  g.output(g.node("add.Tensor", {V("self", a), V("other", m), I("alpha", 1)}, {4, 4}));
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  CHECK(sound_ways(g.graph, p).empty());
}

TEST_CASE("ways that replace different kernels go together, and those of one kernel are few") {
  GraphBuilder g;
  int last = g.input({128, 256});
  for (int i = 0; i < 12; ++i) last = g.node("sin.default", {V("self", last)}, {128, 256});
  g.output(last);
  const int y = g.input({64, 64});
  const int e = g.node("exp.default", {V("self", y)}, {64, 64});
  const int t = g.node("sum.dim_IntList", {V("self", e), L("dim", {1}), B("keepdim", true), N("dtype")}, {64, 1});
  g.output(g.node("div.Tensor", {V("self", e), V("other", t)}, {64, 64}));
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  const auto ways = sound_ways(g.graph, p);
  for (const std::size_t r : {std::size_t{0}, std::size_t{1}}) {
    const auto of = std::ranges::count_if(ways, [&](const FusionPlan& w) { return w.replaces == std::vector{r}; });
    CHECK(of > 0);
    CHECK(of <= 4);
  }
  const auto first = std::ranges::find(ways, std::vector<std::size_t>{0}, &FusionPlan::replaces);
  const auto second = std::ranges::find(ways, std::vector<std::size_t>{1}, &FusionPlan::replaces);
  const auto both = fuse_by(g.graph, p, {&*first, &*second});
  REQUIRE(both.has_value());
  CHECK(both->regions.size() == 4);
  sound(g.graph, *both);
}

TEST_CASE("every way to cut a captured attention block is sound, and the same each time") {
  const ir::Graph graph = fixture("attention_block.json");
  const Partition p = cut(graph);
  const auto ways = sound_ways(graph, p);
  CHECK(ways.size() >= p.regions.size());
  const auto again = fusion_plans(graph, p, cpu());
  REQUIRE(again.size() == ways.size());
  for (std::size_t i = 0; i < ways.size(); ++i) {
    CHECK(again[i].replaces == ways[i].replaces);
    REQUIRE(again[i].by.size() == ways[i].by.size());
    for (std::size_t k = 0; k < ways[i].by.size(); ++k)
      CHECK(text(again[i].by[k].kernel) == text(ways[i].by[k].kernel));
  }
}

namespace {

/// A group norm of f32 or bf16 data, the latter with its statistics in fp32 behind it as capture writes them; its SiLU
/// is folded one way, the norm itself the other.
struct TwoReaders {
  GraphBuilder g;
  int silu = -1, mean = -1, rstd = -1;  ///< the latter two as kernels store them
  explicit TwoReaders(DType dtype) {
    const Shape full{4, 16, 60};  // channels of no whole pieces: their folds are kernels of their own
    const int x = g.input(full, dtype), w = g.input({16}, dtype);
    const int y = norm(x, w, full, dtype);
    if (dtype != DType::f32) norm(g.node("_to_copy.default", {V("self", x)}, full), -1, full, DType::f32);
    silu = g.node("silu.default", {V("self", y)}, full, dtype);
    const int m = g.node("mean.dim", {V("self", silu), L("dim", {2}), B("keepdim", false), N("dtype")}, {4, 16}, dtype);
    g.output(g.node("sqrt.default", {V("self", m)}, {4, 16}, dtype));
    g.output(g.node("amax.default", {V("self", y), L("dim", {1}), B("keepdim", false)}, {4, 60}, dtype));
  }

 private:
  int norm(int x, int w, const Shape& full, DType dtype) {
    const int y = g.node("native_group_norm.default",
                         {V("input", x), w < 0 ? N("weight") : V("weight", w), N("bias"), I("N", 4), I("C", 16),
                          I("HxW", 60), I("group", 4), F("eps", 1e-5)},
                         full, dtype);
    mean = g.value({4, 4}, dtype), rstd = g.value({4, 4}, dtype);
    g.graph.nodes.back().outs = {y, mean, rstd};
    return y;
  }
};

}  // namespace

TEST_CASE("kernels that are given a norm's statistics are given them in every way to cut them") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TwoReaders task(dtype);
    const Partition p = cut(task.g.graph);
    const std::vector<int> statistics{task.mean, task.rstd};
    REQUIRE(p.regions.size() == 3);
    CHECK(p.regions[0].outputs == statistics);
    CHECK(p.regions[0].given.empty());
    CHECK(p.regions[1].given == statistics);
    CHECK(p.regions[2].given == statistics);
    const auto ways = sound_ways(task.g.graph, p);
    const auto folds = [](const Region& r) { return r.kernel.reductions.size(); };
    const auto stores = [&](const FusionPlan& way) { return way.by[0].outputs == std::vector<int>{task.silu}; };
    // Among them the norm as a kernel of its own, which writes what the fold reads: it folds nothing.
    const auto written = std::ranges::find_if(ways, stores);
    REQUIRE(written != ways.end());
    CHECK(written->by[0].given == statistics);
    CHECK(folds(written->by[0]) == 0);
    for (const FusionPlan& way : ways) {
      if (way.replaces[0] == 0) continue;
      for (const Region& region : way.by) CHECK(folds(region) <= way.replaces.size());
    }
    // Both readers as one kernel.
    const auto one = std::ranges::find(ways, std::vector<std::size_t>{1, 2}, &FusionPlan::replaces);
    REQUIRE(one != ways.end());
    CHECK(one->by[0].given == statistics);
    CHECK(folds(one->by[0]) == 2);
  }
}

TEST_CASE("a norm's statistics are not given to what makes them") {
  GraphBuilder g;
  const int x = g.input({4, 16, 64});
  const int y =
      g.node("native_layer_norm.default",
             {V("input", x), L("normalized_shape", {64}), N("weight"), N("bias"), F("eps", 1e-5)}, {4, 16, 64});
  const int mean = g.value({4, 16, 1}), rstd = g.value({4, 16, 1});
  g.graph.nodes.back().outs = {y, mean, rstd};
  const int m = g.node("mean.dim", {V("self", y), L("dim", {1}), B("keepdim", false), N("dtype")}, {4, 64});
  g.output(m);
  PartitionOptions apart;  // partition() would make one kernel of it
  apart.limits.max_nodes = 13;
  const auto p = partition(g.graph, apart);
  REQUIRE(p.has_value());
  REQUIRE(p->regions.size() == 2);
  CHECK(p->regions[1].given == std::vector<int>{mean, rstd});
  const auto ways = sound_ways(g.graph, *p);
  const auto one = std::ranges::find(ways, std::vector<std::size_t>{0, 1}, &FusionPlan::replaces);
  REQUIRE(one != ways.end());
  CHECK(one->by[0].given.empty());
  CHECK(one->by[0].outputs == std::vector<int>{m});
  CHECK(one->by[0].inputs == std::vector<int>{x});
  CHECK(text(one->by[0].kernel) == text(cut(g.graph).regions[0].kernel));
}

namespace {

/// A convolution of 16 into 32 channels, whose results are 8 x 32 x 32 x 32.
int convolved(GraphBuilder& g) {
  const int x = g.input({8, 16, 34, 34}), w = g.input({32, 16, 3, 3});
  return g.node("conv2d.default", {V("input", x), V("weight", w)}, {8, 32, 32, 32});
}

struct OnHopper {
  Partition whole;
  std::vector<FusionPlan> ways;
};

/// The ways to cut a graph where products are kernels, each of them sound.
OnHopper with_products(const ir::Graph& graph) {
  PartitionOptions options;
  options.limits.contractions = true;
  auto whole = partition(graph, options);
  REQUIRE(whole);
  FusionOptions fusion_options;
  fusion_options.limits.contractions = true;
  auto ways = fusion_plans(graph, *whole, h200(), fusion_options);
  for (const FusionPlan& way : ways) {
    const auto changed = fuse_by(graph, *whole, {&way});
    REQUIRE(changed);
    sound(graph, *changed);
  }
  return {std::move(*whole), std::move(ways)};
}

/// Whether some way has a product's kernel that stores `value`, and not what else the product could store.
bool stores_alone(const OnHopper& task, int value) {
  return std::ranges::any_of(task.ways, [&](const FusionPlan& way) {
    return way.replaces.size() > 1 && way.by.size() > 1 && way.by[0].kernel.anchor == Anchor::contraction &&
           way.by[0].outputs == std::vector<int>{value};
  });
}

}  // namespace

TEST_CASE("what is computed before rows of a convolution's results are folded can join the convolution") {
  GraphBuilder g;
  const int gelu = g.node("gelu.default", {V("self", convolved(g))}, {8, 32, 32, 32});
  g.output(g.node("_softmax.default", {V("self", gelu), I("dim", 3), B("half_to_float", false)}, {8, 32, 32, 32}));
  const OnHopper task = with_products(g.graph);
  REQUIRE(task.whole.regions.size() == 2);
  CHECK(stores_alone(task, gelu));
}

TEST_CASE("a pool joins the convolution before it, and what folds its windows' results stays behind") {
  GraphBuilder g;
  const int pool = g.node("max_pool2d.default",
                          {V("self", convolved(g)), L("kernel_size", {2, 2}), L("stride", {2, 2})}, {8, 32, 16, 16});
  const int clamped = g.node("hardtanh.default", {V("self", pool)}, {8, 32, 16, 16});
  g.output(g.node("mean.dim", {V("self", clamped), L("dim", {2, 3}), B("keepdim", false), N("dtype")}, {8, 32}));
  const OnHopper task = with_products(g.graph);
  REQUIRE(task.whole.regions.size() == 2);
  CHECK(stores_alone(task, clamped));
  CHECK_FALSE(stores_alone(task, pool));  // which moves as much, and leaves more behind
}

TEST_CASE("what every reader of a convolution computes of its results first can be computed where these are made") {
  GraphBuilder g;
  const int y = convolved(g);
  const int gelu = g.node("gelu.default", {V("self", y)}, {8, 32, 32, 32});
  g.output(g.node("amax.default", {V("self", gelu), L("dim", {3}), B("keepdim", false)}, {8, 32, 32}));
  g.output(g.node("sum.dim_IntList", {V("self", gelu), L("dim", {0, 2}), B("keepdim", false), N("dtype")}, {32, 32}));
  const OnHopper task = with_products(g.graph);
  REQUIRE(task.whole.regions.size() == 3);
  CHECK(stores_alone(task, gelu));
}

TEST_CASE("equal kernels of unlike nodes are cut each by its own") {
  GraphBuilder g;
  int y = convolved(g);
  for (const int clones : {0, 80}) {
    if (clones > 0) {
      const int w = g.input({32, 32, 1, 1});
      y = g.node("conv2d.default", {V("input", y), V("weight", w)}, {8, 32, 32, 32});
    }
    y = g.node("gelu.default", {V("self", y)}, {8, 32, 32, 32});
    for (int i = 0; i < clones; ++i) y = g.node("clone.default", {V("self", y)}, {8, 32, 32, 32});
    y = g.node("_softmax.default", {V("self", y), I("dim", 3), B("half_to_float", false)}, {8, 32, 32, 32});
  }
  g.output(y);
  const OnHopper task = with_products(g.graph);
  const auto shifted = std::ranges::count_if(task.ways, [](const FusionPlan& way) {
    return way.replaces.size() == 2 && way.by.size() == 2 && way.by[0].kernel.anchor == Anchor::contraction;
  });
  CHECK(shifted >= 2);
}

namespace {

/// A pointwise convolution of 16-bit images of 7 by 7 places.
int pointwise_convolution(GraphBuilder& g) {
  const int x = g.input({64, 512, 7, 7}, DType::bf16), w = g.input({256, 512, 1, 1}, DType::bf16);
  return g.node("conv2d.default", {V("input", x), V("weight", w)}, {64, 256, 7, 7}, DType::bf16);
}

/// A linear layer of 16 bits, 512 by 256 results.
int linear(GraphBuilder& g) {
  const int x = g.input({512, 256}, DType::bf16), w = g.input({256, 256}, DType::bf16);
  return g.node("linear.default", {V("input", x), V("weight", w)}, {512, 256}, DType::bf16);
}

/// The kernels when products have taken in what they can. Each of these, and of the other ways to cut the graph, has a
/// guess on the device.
Partition joined_with_epilogues(const ir::Graph& graph, const Device& device, FusionOptions options = {}) {
  options.limits.contractions = true;
  options.limits.narrow_products = tensor_cores(device) == TensorCores::warps;
  PartitionOptions cutting;
  cutting.limits = options.limits;
  const auto apart = partition(graph, cutting);
  REQUIRE(apart);
  Partition joined = with_epilogues(graph, *apart, device, options);
  const auto can = [&](const Region& region) {
    CHECK(schedule_lacks(region.kernel, device).empty());
    CHECK_FALSE(seeds(region.kernel, device).empty());
  };
  std::ranges::for_each(joined.regions, can);
  for (const FusionPlan& way : fusion_plans(graph, joined, device, options)) std::ranges::for_each(way.by, can);
  return joined;
}
std::size_t kernels_with_epilogues(const ir::Graph& graph, const Device& device) {
  return joined_with_epilogues(graph, device).regions.size();
}

int sum_of(GraphBuilder& g, int a, int b) {
  const ir::Value like = g.graph.values[static_cast<std::size_t>(a)];
  return g.node("add.Tensor", {V("self", a), V("other", b), I("alpha", 1)}, like.shape, like.dtype);
}

}  // namespace

TEST_CASE("a product takes in a mean, unless no tile holds whole numbers of what it folds") {
  const auto kernels = [](std::int64_t places) {
    GraphBuilder g;
    const int x = g.input({64, 512, places}, DType::bf16), w = g.input({256, 512, 1}, DType::bf16);
    const int y = g.node("conv1d.default", {V("input", x), V("weight", w)}, {64, 256, places}, DType::bf16);
    const int z = g.node("relu.default", {V("self", y)}, {64, 256, places}, DType::bf16);
    g.output(
        g.node("mean.dim", {V("self", z), L("dim", {2}), B("keepdim", false), N("dtype")}, {64, 256}, DType::bf16));
    return kernels_with_epilogues(g.graph, h200());
  };
  CHECK(kernels(48) == 1);
  CHECK(kernels(49) == 2);
}

TEST_CASE("a mean over both dims of odd images stays behind the product that they are, with what is added to that") {
  GraphBuilder g;
  const int y = pointwise_convolution(g), more = g.input({64, 256, 7, 7}, DType::bf16);
  const int sum = g.node("add.Tensor", {V("self", y), V("other", more), I("alpha", 1)}, {64, 256, 7, 7}, DType::bf16);
  g.output(g.node("mean.dim", {V("self", sum), L("dim", {2, 3}), B("keepdim", true), N("dtype")}, {64, 256, 1, 1},
                  DType::bf16));
  CHECK(kernels_with_epilogues(g.graph, h200()) == 2);
}

TEST_CASE("a product of warps takes in what is computed element by element, and no fold") {
  for (const bool folds : {false, true}) {
    GraphBuilder g;
    const int y = linear(g);
    const int z = g.node("relu.default", {V("self", y)}, {512, 256}, DType::bf16);
    g.output(folds ? g.node("max_pool1d.default", {V("self", z), L("kernel_size", {2}), L("stride", {2})}, {512, 128},
                            DType::bf16)
                   : z);
    CHECK(kernels_with_epilogues(g.graph, older("sm_80")) == (folds ? 2 : 1));
    CHECK(kernels_with_epilogues(g.graph, h200()) == 1);
  }
}

TEST_CASE("what would take a product from the tensor cores stays behind it") {
  // Places that are known at run time alone.
  GraphBuilder g;
  const int y = linear(g), table = g.input({32, 256}, DType::bf16), places = g.input({512}, DType::i64);
  const int rows = g.node("embedding.default", {V("weight", table), V("indices", places)}, {512, 256}, DType::bf16);
  g.output(g.node("add.Tensor", {V("self", y), V("other", rows), I("alpha", 1)}, {512, 256}, DType::bf16));
  CHECK(kernels_with_epilogues(g.graph, h200()) == 2);
  // Two results.
  GraphBuilder two;
  const int sums = linear(two);
  two.output(two.node("relu.default", {V("self", sums)}, {512, 256}, DType::bf16));
  two.output(two.node("neg.default", {V("self", sums)}, {512, 256}, DType::bf16));
  CHECK(kernels_with_epilogues(two.graph, older("sm_80")) == 2);
  CHECK(kernels_with_epilogues(two.graph, h200()) == 1);
}

TEST_CASE("a product takes in what the device file does not compute where that saves more than the other loop costs") {
  const auto kernels = [](std::int64_t depth) {
    GraphBuilder two;  // results
    const int x = two.input({4096, depth}, DType::bf16), w = two.input({1024, depth}, DType::bf16);
    const int y = two.node("linear.default", {V("input", x), V("weight", w)}, {4096, 1024}, DType::bf16);
    two.output(two.node("relu.default", {V("self", y)}, {4096, 1024}, DType::bf16));
    two.output(two.node("neg.default", {V("self", y)}, {4096, 1024}, DType::bf16));
    return kernels_with_epilogues(two.graph, h200());
  };
  CHECK(kernels(64) == 1);
  CHECK(kernels(16384) == 2);
}

TEST_CASE("a product gives values of one graph") {
  GraphBuilder g;
  const int y = convolved(g);
  g.output(g.node("relu.default", {V("self", y)}, {8, 32, 32, 32}));
  const int local = g.node("neg.default", {V("self", y)}, {8, 32, 32, 32});
  g.output(local);
  CHECK(kernels_with_epilogues(g.graph, h200()) == 1);
  FusionOptions options;
  options.local = static_cast<std::size_t>(local);
  CHECK(joined_with_epilogues(g.graph, h200(), options).regions.size() == 2);
}

TEST_CASE("a product computes what its readers would each compute of its results first, and stores that alone") {
  GraphBuilder g;
  const int rows = g.input({8192, 64}, DType::bf16), w = g.input({4096, 64}, DType::bf16);
  const int y = g.node("linear.default", {V("input", rows), V("weight", w)}, {8192, 4096}, DType::bf16);
  const int residual = g.input({8192, 4096}, DType::bf16);
  const int x = sum_of(g, y, residual);
  const auto fold = [&](int of, std::int64_t dim) {
    return g.node("amax.default", {V("self", of), L("dim", {dim}), B("keepdim", false)}, {dim == 0 ? 4096 : 8192},
                  DType::bf16);
  };
  SUBCASE("of one that folds what it stores") {
    g.output(x);
    g.output(fold(x, 0));
  }
  SUBCASE("of two that fold it along other dims") {
    g.output(fold(x, 0));
    g.output(fold(x, 1));
  }
  const Partition joined = joined_with_epilogues(g.graph, h200());
  const auto product = std::ranges::find_if(
      joined.regions, [&](const Region& r) { return std::ranges::find(r.inputs, residual) != r.inputs.end(); });
  REQUIRE(product != joined.regions.end());
  CHECK(product->kernel.anchor == Anchor::contraction);
  CHECK(product->outputs == std::vector<int>{x});
  for (const Region& r : joined.regions) CHECK(std::ranges::find(r.inputs, y) == r.inputs.end());
}

TEST_CASE("a product waits for nothing that waits for it") {
  // What both readers compute first needs the mean of the product's rows.
  GraphBuilder g;
  const int y = linear(g);
  const int mean =
      g.node("mean.dim", {V("self", y), L("dim", {1}), B("keepdim", true), N("dtype")}, {512, 1}, DType::bf16);
  const int apart = g.node("cumsum.default", {V("self", mean), I("dim", 0), N("dtype")}, {512, 1}, DType::bf16);
  const int x = sum_of(g, y, apart);
  for (const std::int64_t dim : {0, 1})
    g.output(g.node("amax.default", {V("self", x), L("dim", {dim}), B("keepdim", false)}, {dim == 0 ? 256 : 512},
                    DType::bf16));
  const Partition joined = joined_with_epilogues(g.graph, h200());
  const auto product = std::ranges::find_if(joined.regions, [&](const Region& r) {
    return std::ranges::find(r.outputs, y) != r.outputs.end() && r.kernel.anchor == Anchor::contraction;
  });
  CHECK(product != joined.regions.end());
}
