#include "codegen/partition/partition.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/devices.h"
#include "codegen/genome.h"
#include "codegen/sound.h"
#include "sample_kernels.h"
#include "scan_samples.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::testing;

TEST_CASE("a pointwise chain with a row in the middle is one kernel") {
  GraphBuilder g;
  const int x = g.input({4, 8});
  const int a = g.node("mul.Tensor", {V("self", x), F("other", 2)}, {4, 8});
  const int m = g.node("amax.default", {V("self", a), L("dim", {1}), B("keepdim", true)}, {4, 1});
  const int s = g.node("sub.Tensor", {V("self", a), V("other", m), I("alpha", 1)}, {4, 8});
  const int e = g.node("exp.default", {V("self", s)}, {4, 8});
  const int t = g.node("sum.dim_IntList", {V("self", e), L("dim", {1}), B("keepdim", true), N("dtype")}, {4, 1});
  const int d = g.node("div.Tensor", {V("self", e), V("other", t)}, {4, 8});
  const int r = g.node("relu.default", {V("self", d)}, {4, 8});
  g.output(r);
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 1);
  CHECK(p.order.size() == 1);
  CHECK(p.regions[0].kernel.reductions.size() == 2);
  CHECK(p.regions[0].nodes.size() == 7);
  sound(g.graph, p);
}

TEST_CASE("no cycle through an aten step") {
  GraphBuilder g;
  const int x = g.input({4, 4});
  const int a = g.node("relu.default", {V("self", x)}, {4, 4});
  const int m = g.node("mm.default", {V("self", a), V("mat2", a)}, {4, 4});
  const int b = g.node("add.Tensor", {V("self", a), V("other", m), I("alpha", 1)}, {4, 4});
  g.output(b);
  const Partition p = cut(g.graph);
  CHECK(p.regions.size() == 2);
  CHECK(p.order.size() == 3);
  sound(g.graph, p);
}

TEST_CASE("unused nodes vanish, unlowerable ones and aliases stay aten") {
  GraphBuilder g;
  const int x = g.input({4, 4});
  g.node("exp.default", {V("self", x)}, {4, 4});
  const int c = g.node("tril_indices.default", {V("self", x), I("dim", 1)}, {4, 4});
  const int v = g.node("view.default", {V("self", x), L("size", {16})}, {16});
  g.output(c);
  g.output(v);
  g.output(x);
  const Partition p = cut(g.graph);
  CHECK(p.regions.empty());
  CHECK(p.order.size() == 2);
  sound(g.graph, p);
  const auto whole = compose(g.graph, p, {}, cpu());
  REQUIRE(whole.has_value());
  CHECK(whole->buffers[static_cast<std::size_t>(whole->outputs[2].buffer)].role == program::Role::input);
}

TEST_CASE("a view of a result that alone is returned is stored in its place") {
  GraphBuilder g;
  const int x = g.input({4, 4});
  const int r = g.node("relu.default", {V("self", x)}, {4, 4});
  const int v = g.node("view.default", {V("self", r), L("size", {2, 8})}, {2, 8});
  g.output(v);
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 1);
  CHECK(p.order.size() == 1);
  CHECK(p.regions[0].outputs == std::vector<int>{v});
  sound(g.graph, p);
}

TEST_CASE("a cheap producer is repeated in readers that cannot share a kernel") {
  GraphBuilder g;
  const int x = g.input({8, 8});
  const int r = g.node("relu.default", {V("self", x)}, {8, 8});
  const int rows = g.node("sum.dim_IntList", {V("self", r), L("dim", {1}), B("keepdim", false), N("dtype")}, {8});
  const int all = g.node("sum.default", {V("self", r), N("dtype")}, {});
  g.output(rows);
  g.output(all);
  const Partition p = cut(g.graph);
  CHECK(p.regions.size() == 2);
  for (const Region& region : p.regions) CHECK(region.inputs == std::vector<int>{x});
  sound(g.graph, p);
}

TEST_CASE("siblings that read one large value share a kernel; equal regions have equal keys") {
  GraphBuilder g;
  const int x = g.input({16, 32}), y = g.input({16, 32});
  g.output(g.node("exp.default", {V("self", x)}, {16, 32}));
  g.output(g.node("neg.default", {V("self", x)}, {16, 32}));
  g.output(g.node("exp.default", {V("self", y)}, {16, 32}));
  g.output(g.node("neg.default", {V("self", y)}, {16, 32}));
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  CHECK(p.regions[0].outputs.size() == 2);
  CHECK(canonical_key(p.regions[0]) == canonical_key(p.regions[1]));
  sound(g.graph, p);
}

TEST_CASE("steps of an unrolled loop are scheduled alike where their slices are aligned alike") {
  const auto keys = [](std::int64_t width) {
    GraphBuilder g;
    const int given = g.input({4, 6, width});
    int state = g.input({4, width});
    for (std::int64_t step = 0; step < 6; ++step) {
      const int one = g.node("select.int", {V("self", given), I("dim", 1), I("index", step)}, {4, width}, DType::f32,
                             {6 * width, 1});
      const int sum = g.node("add.Tensor", {V("self", state), V("other", one)}, {4, width});
      // Something that no kernel takes in lies between the steps.
      const int next = g.node("mystery.default", {V("self", sum)}, {4, width});
      state = next;
    }
    g.output(state);
    const Partition p = cut(g.graph);
    REQUIRE(p.regions.size() == 6);
    std::set<std::string> exact, alike;
    for (const Region& region : p.regions) {
      exact.insert(canonical_key(region));
      alike.insert(schedule_key(region));
    }
    CHECK(exact.size() == 6);
    return alike.size();
  };
  CHECK(keys(64) == 1);
  CHECK(keys(6) == 2);  // 24 bytes on: every second step begins within a vector
}

TEST_CASE("what stored knowledge is keyed by does not change unnoticed") {
  const auto key = [](Kernel kernel) {
    Region region;
    region.kernel = std::move(kernel);
    return canonical_key(region);
  };
  // Where another key is meant, kernel_key_version goes up, CHANGELOG.md says that what users have learned is found no
  // more, and the new keys are written here.
  CHECK(key(samples::softmax(4, 8).kernel) == "db603c3895b428863a0bec79a0dda4466ab5904bacceea5f3b8bf4292e913f4e");
  CHECK(key(samples::integers(3, 4).kernel) == "fc8a4aecbdb00b9f6bb78822206f379bed900b6e75117fd0b8027d7c224eb818");
  CHECK(key(samples::scan_samples().front().kernel) ==
        "0b9d76b52e4a56be7b11b97166ada0ca5ec7d20a77c1ff6e0907a40cbabd1a20");
}

TEST_CASE("a long lonely row and a column are regions as well") {
  GraphBuilder g;
  const int x = g.input({2, 1 << 21});
  g.output(g.node("sum.default", {V("self", x), N("dtype")}, {}));
  CHECK(cut(g.graph).regions.size() == 1);
  GraphBuilder h;
  const int y = h.node("exp.default", {V("self", h.input({1000, 64}))}, {1000, 64});
  const int z = h.node("sum.dim_IntList", {V("self", y), L("dim", {0}), B("keepdim", false), N("dtype")}, {64});
  h.output(h.node("sqrt.default", {V("self", z)}, {64}));
  const auto p = cut(h.graph);
  REQUIRE(p.regions.size() == 1);
  CHECK(p.order.size() == 1);
  sound(h.graph, p);
}

TEST_CASE("launches that follow share the scratch of the first") {
  GraphBuilder g;
  const int x = g.input({1 << 20, 16});
  g.output(g.node("sum.dim_IntList", {V("self", x), L("dim", {0}), B("keepdim", false), N("dtype")}, {16}));
  const auto p = cut(g.graph);
  REQUIRE(p.regions.size() == 1);
  Emitted first = empty_kernel(p.regions[0]);
  Emitted next = empty_kernel(p.regions[0]);
  next.scratch_bytes.clear();
  next.source += " ";
  first.after.push_back(next);
  const auto program = region_program(g.graph, p.regions[0], first, cpu());
  REQUIRE(program.has_value());
  REQUIRE(program->steps.size() == 2);
  const auto& a = std::get<program::Launch>(program->steps[0]);
  const auto& b = std::get<program::Launch>(program->steps[1]);
  CHECK(a.kernel != b.kernel);
  CHECK(std::get<program::BufferArg>(a.args.back()).buffer == std::get<program::BufferArg>(b.args.back()).buffer);
  CHECK(program->buffers.size() == 3);
  first.after[0].args.back().index = 1;
  CHECK_FALSE(region_program(g.graph, p.regions[0], first, cpu()).has_value());
}

TEST_CASE("scratch that must be zero is set before each launch") {
  GraphBuilder g;
  const int x = g.input({1 << 20, 16});
  g.output(g.node("sum.dim_IntList", {V("self", x), L("dim", {0}), B("keepdim", false), N("dtype")}, {16}));
  const auto p = cut(g.graph);
  Emitted one = empty_kernel(p.regions[0]);
  one.language = "cuda";
  one.source = "extern \"C\" __global__ void k() {}";
  one.zeroed = {0};
  one.cooperative = true;
  Device device = cpu();
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  const auto program = region_program(g.graph, p.regions[0], one, device);
  REQUIRE(program.has_value());
  REQUIRE(program->steps.size() == 2);
  const auto& set = std::get<program::Set>(program->steps[0]);
  const auto& launch = std::get<program::Launch>(program->steps[1]);
  CHECK(set.value == 0);
  CHECK(set.buffer == std::get<program::BufferArg>(launch.args.back()).buffer);
  CHECK(launch.cooperative);
  one.zeroed = {1};
  CHECK_FALSE(region_program(g.graph, p.regions[0], one, device).has_value());
}

TEST_CASE("effects become outputs and states") {
  GraphBuilder g;
  const int x = g.input({4});
  const int b = g.value({4});
  g.graph.inputs.push_back({b, "buffer", "bn.mean", -1, ""});
  const int n = g.node("add.Tensor", {V("self", b), V("other", x), I("alpha", 1)}, {4});
  g.graph.outputs.push_back({"mutate_buffer", n, "bn.mean", -1, ""});
  const Partition p = cut(g.graph);
  const auto whole = compose(g.graph, p, {empty_kernel(p.regions.at(0))}, cpu());
  REQUIRE(whole.has_value());
  CHECK(whole->outputs[0].target_name == "bn.mean");
  CHECK(std::any_of(whole->buffers.begin(), whole->buffers.end(),
                    [](const auto& buffer) { return buffer.role == program::Role::state; }));
  CHECK(compose(g.graph, p, {}, cpu()).error().kind.name() == "bad_argument");
}

TEST_CASE("a captured attention block partitions, composes and is the same each time") {
  const ir::Graph graph = fixture("attention_block.json");
  const Partition p = cut(graph);
  sound(graph, p);
  sound(graph, cut(graph, false));
  CHECK(p.regions.size() <= 8);
  // The normalisation, its residual and the mean over the same rows are one kernel.
  CHECK(std::any_of(p.regions.begin(), p.regions.end(),
                    [](const Region& r) { return r.kernel.reductions.size() == 2 && r.outputs.size() == 2; }));
  const Partition again = cut(graph);
  REQUIRE(again.regions.size() == p.regions.size());
  for (std::size_t i = 0; i < p.regions.size(); ++i) CHECK(text(again.regions[i].kernel) == text(p.regions[i].kernel));
}

namespace {

/// A group norm with its statistics: [result, mean, 1/σ].
std::vector<int> group_norm(GraphBuilder& g, int x, const Shape& shape, std::int64_t groups, DType dtype = DType::f32) {
  const int w = g.input({shape[1]}, dtype), b = g.input({shape[1]}, dtype);
  const int y = g.node("native_group_norm.default",
                       {V("input", x), V("weight", w), V("bias", b), I("N", shape[0]), I("C", shape[1]),
                        I("HxW", shape[2]), I("group", groups), F("eps", 1e-5)},
                       shape, dtype);
  const int mean = g.value({shape[0], groups}, dtype), rstd = g.value({shape[0], groups}, dtype);
  g.graph.nodes.back().outs = {y, mean, rstd};
  return {y, mean, rstd};
}

/// The same of 16-bit data, with the fp32 statistics that capture writes behind it: [result, mean, 1/σ, and these two
/// in fp32].
std::vector<int> narrow_group_norm(GraphBuilder& g, int x, const Shape& shape, std::int64_t groups) {
  auto norm = group_norm(g, x, shape, groups, DType::bf16);
  const int wide = g.node("_to_copy.default", {V("self", x)}, shape);
  const int y = g.node("native_group_norm.default",
                       {V("input", wide), N("weight"), N("bias"), I("N", shape[0]), I("C", shape[1]),
                        I("HxW", shape[2]), I("group", groups), F("eps", 1e-5)},
                       shape);
  const int mean = g.value({shape[0], groups}), rstd = g.value({shape[0], groups});
  g.graph.nodes.back().outs = {y, mean, rstd};
  norm.insert(norm.end(), {mean, rstd});
  return norm;
}

int mean_of(GraphBuilder& g, int x, std::vector<std::int64_t> dims, const Shape& shape, DType dtype = DType::f32) {
  return g.node("mean.dim", {V("self", x), L("dim", std::move(dims)), B("keepdim", false), N("dtype")}, shape, dtype);
}

/// Where it is largest along a dim: no kernel finds that together with folds along another dim.
int best_of(GraphBuilder& g, int x, std::int64_t dim, const Shape& shape) {
  return g.node("argmax.default", {V("self", x), I("dim", dim), B("keepdim", false)}, shape, DType::i64);
}

double bytes(const Partition& p) {
  double sum = 0;
  for (const Region& r : p.regions) sum += cost(r.kernel).bytes;
  return sum;
}

bool writes(const Partition& p, int value) {
  return std::ranges::any_of(p.regions, [&](const Region& r) { return std::ranges::count(r.outputs, value) > 0; });
}

constexpr double tensor = 4.0 * 4 * 16 * 64;  ///< bytes of the f32 tensors below
const Shape full{4, 16, 64};

}  // namespace

TEST_CASE("a norm whose result is folded over other dims stores its statistics alone") {
  GraphBuilder g;
  const int x = g.input(full);
  const auto norm = group_norm(g, x, full, 4);
  const int a = g.node("silu.default", {V("self", norm[0])}, full);
  const int m = mean_of(g, a, {1}, {4, 64});
  g.output(m);
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  const Region &statistics = p.regions[0], &reader = p.regions[1];
  CHECK(statistics.outputs == std::vector<int>{norm[1], norm[2]});
  // The weights are no operands of the kernel, but the operator cannot do without them.
  CHECK(statistics.kernel.inputs.size() == 1);
  CHECK(std::set<int>(statistics.inputs.begin(), statistics.inputs.end()) == std::set<int>{0, 1, 2});
  CHECK(std::set<int>(reader.inputs.begin(), reader.inputs.end()) == std::set<int>{x, 1, 2, norm[1], norm[2]});
  CHECK(reader.outputs == std::vector<int>{m});
  CHECK(reader.nodes == std::vector<int>{0, 1, 2});
  CHECK(reader.kernel.reductions.size() == 1);
  CHECK(bytes(p) >= 2 * tensor);
  CHECK(bytes(p) < 2.1 * tensor);
  sound(g.graph, p);
}

TEST_CASE("a norm of 16-bit data stores its statistics in fp32, where only they are stored") {
  GraphBuilder g;
  const int x = g.input(full, DType::bf16);
  const int before = g.node("relu.default", {V("self", x)}, full, DType::bf16);
  const auto norm = narrow_group_norm(g, before, full, 4);
  const int a = g.node("silu.default", {V("self", norm[0])}, full, DType::bf16);
  const int m = mean_of(g, a, {2}, {4, 16}, DType::bf16);
  g.output(m);
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  const Region &statistics = p.regions[0], &reader = p.regions[1];
  CHECK(statistics.outputs == std::vector<int>{norm[3], norm[4]});
  // The second norm makes them, not the first; and it needs no weights.
  CHECK(statistics.nodes == std::vector<int>{0, 2, 3});
  CHECK(statistics.inputs == std::vector<int>{x});
  CHECK(reader.nodes == std::vector<int>{0, 1, 4, 5});
  CHECK(reader.kernel.reductions.size() == 1);
  CHECK(bytes(p) < 2.1 * tensor / 2);
  sound(g.graph, p);

  // As one kernel with the norm's result, and where nothing is folded, the second norm is not there.
  GraphBuilder alone;
  const int y = narrow_group_norm(alone, alone.input(full, DType::bf16), full, 4)[0];
  alone.output(alone.node("silu.default", {V("self", y)}, full, DType::bf16));
  REQUIRE(cut(alone.graph).regions.size() == 1);
  CHECK(cut(alone.graph).regions[0].nodes == std::vector<int>{0, 3});
  CHECK(cut(alone.graph).order.size() == 1);
}

namespace {

/// A softmax with what capture writes behind it: [result, maximum, sum of exponentials].
std::vector<int> softmax(GraphBuilder& g, int x, const Shape& shape, std::int64_t dim, DType dtype = DType::f32) {
  const int y = g.node("_softmax.default", {V("self", x), I("dim", dim), B("half_to_float", false)}, shape, dtype);
  Shape row = shape;
  row[static_cast<std::size_t>(dim)] = 1;
  const int most = g.node("amax.default", {V("self", x), L("dim", {dim}), B("keepdim", true)}, row, dtype);
  const int shifted = g.node("sub.Tensor", {V("self", x), V("other", most), I("alpha", 1)}, shape, dtype);
  const int e = g.node("exp.default", {V("self", shifted)}, shape, dtype);
  const int sum =
      g.node("sum.dim_IntList", {V("self", e), L("dim", {dim}), B("keepdim", true), N("dtype")}, row, dtype);
  return {y, most, sum};
}

}  // namespace

TEST_CASE("a softmax that is folded over other dims stores the maximum and the sum of its rows") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    GraphBuilder g;
    const int x = g.input(full, dtype);
    const auto soft = softmax(g, x, full, 2, dtype);
    g.output(best_of(g, soft[0], 1, {4, 64}));
    const Partition p = cut(g.graph);
    REQUIRE(p.regions.size() == 2);
    CHECK(p.regions[0].outputs == std::vector<int>{soft[1], soft[2]});
    CHECK(p.regions[1].given == p.regions[0].outputs);
    CHECK(p.regions[1].kernel.reductions.size() == 1);
    sound(g.graph, p);

    // One kernel for both, and alone: what is behind it is not there.
    GraphBuilder both, alone;
    const int z = both.input(full, dtype);
    both.output(mean_of(both, softmax(both, z, full, 2, dtype)[0], {1}, {4, 64}, dtype));
    REQUIRE(cut(both.graph).regions.size() == 1);
    CHECK(cut(both.graph).regions[0].nodes.size() == 2);
    alone.output(softmax(alone, alone.input(full, dtype), full, 2, dtype)[0]);
    REQUIRE(cut(alone.graph).regions.size() == 1);
    CHECK(cut(alone.graph).regions[0].nodes == std::vector<int>{0});
  }
}

TEST_CASE("statistics that readers would load for every element are stored only where that is less") {
  // Over channels, then over the plane: memory runs along the plane, and each place of it has its own statistics.
  const Shape shape{4, 64, 256};
  const auto folded = [&](GraphBuilder& g, int y) { g.output(best_of(g, y, 2, {4, 64})); };
  GraphBuilder two;
  const auto soft = softmax(two, two.input(shape), shape, 1);
  folded(two, soft[0]);
  CHECK(writes(cut(two.graph), soft[0]));
  sound(two.graph, cut(two.graph));

  GraphBuilder one;
  const int x = one.input(shape);
  const int top = one.node("amax.default", {V("self", x), L("dim", {1}), B("keepdim", true)}, {4, 1, 256});
  const int y = one.node("sub.Tensor", {V("self", x), V("other", top), I("alpha", 1)}, shape);
  folded(one, y);
  CHECK_FALSE(writes(cut(one.graph), y));
  CHECK(writes(cut(one.graph), top));
  sound(one.graph, cut(one.graph));

  // With channels last one place's statistics serve a vector of channels.
  GraphBuilder last;
  const int z = last.input(shape, DType::f32, {64 * 256, 1, 64});
  const auto moved = softmax(last, z, shape, 1);
  folded(last, moved[0]);
  CHECK_FALSE(writes(cut(last.graph), moved[0]));
  sound(last.graph, cut(last.graph));
}

TEST_CASE("two 16-bit norms of the same data have each their fp32 statistics") {
  GraphBuilder g;
  const int x = g.input(full, DType::bf16);
  const auto one = narrow_group_norm(g, x, full, 4), two = narrow_group_norm(g, x, full, 4);
  g.output(mean_of(g, one[0], {2}, {4, 16}, DType::bf16));
  g.output(best_of(g, two[0], 1, {4, 64}));
  const Partition p = cut(g.graph);
  CHECK_FALSE(writes(p, one[0]));
  CHECK_FALSE(writes(p, two[0]));
  sound(g.graph, p);

  // What the task itself wants of such a norm in fp32 is that kernel's to store.
  GraphBuilder both;
  const int z = both.input(full, DType::bf16);
  const auto norm = narrow_group_norm(both, z, full, 4);
  both.output(mean_of(both, norm[0], {2}, {4, 16}, DType::bf16));
  both.output(norm[3]);
  sound(both.graph, cut(both.graph));
}

TEST_CASE("a norm whose result two kernels read is computed in both") {
  GraphBuilder g;
  const int x = g.input(full);
  const int before = g.node("hardswish.default", {V("self", x)}, full);
  const auto norm = group_norm(g, before, full, 4);
  const int channels = best_of(g, norm[0], 1, {4, 64});
  g.output(channels);
  // Which batch has the least, at each place.
  g.output(g.node("argmin.default", {V("self", norm[0]), I("dim", 0), B("keepdim", false)}, {16, 64}, DType::i64));
  Partition p = cut(g.graph);
  CHECK(p.regions.size() == 3);
  CHECK_FALSE(writes(p, norm[0]));
  CHECK_FALSE(writes(p, before));
  CHECK(bytes(p) < 3.8 * tensor);
  sound(g.graph, p);
  // The mean of each channel is found where the statistics are.
  g.graph.outputs.pop_back();
  g.output(mean_of(g, norm[0], {2}, {4, 16}));
  p = cut(g.graph);
  CHECK(p.regions.size() == 2);
  CHECK(std::ranges::any_of(p.regions, [](const Region& r) { return r.kernel.anchor == Anchor::segmented_row; }));
  CHECK_FALSE(writes(p, norm[0]));
  CHECK_FALSE(writes(p, before));
  CHECK(bytes(p) < 2.2 * tensor);
  sound(g.graph, p);
}

TEST_CASE(
    "a norm is written where somebody else wants it, where it costs no more, and where its statistics are narrow") {
  GraphBuilder shown;
  auto norm = group_norm(shown, shown.input(full), full, 4);
  shown.output(norm[0]);
  shown.output(mean_of(shown, norm[0], {2}, {4, 16}));
  CHECK(writes(cut(shown.graph), norm[0]));
  sound(shown.graph, cut(shown.graph));

  GraphBuilder aten;
  norm = group_norm(aten, aten.input(full), full, 4);
  aten.output(aten.node("bmm.default", {V("self", norm[0]), V("mat2", aten.input({4, 64, 2}))}, {4, 16, 2}));
  aten.output(mean_of(aten, norm[0], {2}, {4, 16}));
  CHECK(writes(cut(aten.graph), norm[0]));
  sound(aten.graph, cut(aten.graph));

  // Two operands read twice are as many bytes as their sum written and read.
  GraphBuilder pair;
  const int sum =
      pair.node("add.Tensor", {V("self", pair.input(full)), V("other", pair.input(full)), I("alpha", 1)}, full);
  norm = group_norm(pair, sum, full, 4);
  pair.output(best_of(pair, norm[0], 1, {4, 64}));
  CHECK(writes(cut(pair.graph), norm[0]));
  sound(pair.graph, cut(pair.graph));

  GraphBuilder narrow;
  norm = group_norm(narrow, narrow.input(full, DType::bf16), full, 4, DType::bf16);
  narrow.output(mean_of(narrow, norm[0], {2}, {4, 16}, DType::bf16));
  CHECK(writes(cut(narrow.graph), norm[0]));
  sound(narrow.graph, cut(narrow.graph));

  // What a softmax folds has no value in this graph.
  GraphBuilder soft;
  const int s =
      soft.node("_softmax.default", {V("self", soft.input(full)), I("dim", 1), B("half_to_float", false)}, full);
  soft.output(mean_of(soft, s, {2}, {4, 16}));
  CHECK(writes(cut(soft.graph), s));
  sound(soft.graph, cut(soft.graph));
}

TEST_CASE("counters are one launch, unless something waits for them or they differ in size") {
  GraphBuilder g;
  const auto next = [&](int count, const Shape& shape) {
    return g.node("add.Tensor", {V("self", count), I("other", 1), I("alpha", 1)}, shape, DType::i64);
  };
  // Three counters, one of a last kernel's value; a table; two values that other kernels read.
  const int x = g.input({64, 512});
  const int sum = g.node("sum.default", {V("self", x), N("dtype")}, {});
  const int whole =
      g.node("_to_copy.default", {V("self", g.node("floor.default", {V("self", sum)}, {}))}, {}, DType::i64);
  const int bias = g.node("exp.default", {V("self", g.input({}))}, {});
  const int y = g.node("mul.Tensor", {V("self", x), V("other", bias)}, {64, 512});
  const std::vector<int> counters{next(g.input({}, DType::i64), {}), next(g.input({}, DType::i64), {}),
                                  next(g.node("bincount.default", {V("self", whole)}, {}, DType::i64), {})};
  const int table = next(g.input({8}, DType::i64), {8}), large = next(g.input({512}, DType::i64), {512});
  g.output(y);
  for (const int v : counters) g.output(v);
  g.output(table);
  g.output(large);
  g.output(next(g.input({512}, DType::i64), {512}));
  const Partition p = cut(g.graph);
  sound(g.graph, p);
  const auto of = [&](int v) {
    return std::ranges::find_if(p.regions, [&](const Region& r) { return std::ranges::count(r.outputs, v) > 0; });
  };
  REQUIRE(of(counters[0]) != p.regions.end());
  CHECK(of(counters[0])->outputs == counters);
  CHECK(of(table)->outputs == std::vector<int>{table});
  CHECK(of(large)->outputs == std::vector<int>{large});
  CHECK_FALSE(writes(p, bias));
}

TEST_CASE("many counters are a few launches, each of which has a schedule") {
  GraphBuilder g;
  for (int i = 0; i < 100; ++i)
    g.output(g.node("add.Tensor", {V("self", g.input({}, DType::i64)), I("other", 1), I("alpha", 1)}, {}, DType::i64));
  const Partition p = cut(g.graph);
  CHECK(p.regions.size() <= 10);
  for (const Region& region : p.regions) CHECK_FALSE(seeds(region.kernel, h200()).empty());
  sound(g.graph, p);
}

TEST_CASE("a row kernel of a concatenation of many has a schedule, or is cut") {
  GraphBuilder g;
  std::vector<int> parts;
  for (int i = 0; i < 40; ++i) parts.push_back(g.input({8, 4, 16}));
  const int all = g.node("cat.default", {VS("tensors", parts), I("dim", 1)}, {8, 160, 16});
  g.output(g.node("amax.default", {V("self", all), L("dim", {1, 2}), I("keepdim", 0)}, {8}));
  const Partition p = cut(g.graph);
  for (const Region& region : p.regions) {
    if (region.kernel.has_rows()) CHECK_FALSE(seeds(region.kernel, h200()).empty());
  }
  sound(g.graph, p);
}

TEST_CASE("a pool over a concatenation has a schedule, or is cut") {
  GraphBuilder g;
  std::vector<int> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(g.input({8, 64, 7, 7}));
  const int all = g.node("cat.default", {VS("tensors", parts), I("dim", 1)}, {8, 256, 7, 7});
  g.output(g.node("adaptive_avg_pool2d.default", {V("self", all), L("output_size", {1, 1})}, {8, 256, 1, 1}));
  const Partition p = cut(g.graph);
  sound(g.graph, p);
  CHECK(std::ranges::all_of(p.order, &Item::is_region));
  for (const Region& region : p.regions) CHECK_FALSE(seeds(region.kernel, h200()).empty());
}

TEST_CASE("a norm written by hand keeps what it folds, too") {
  GraphBuilder g;
  const int x = g.input({8, 32, 64});
  const int square = g.node("mul.Tensor", {V("self", x), V("other", x)}, {8, 32, 64});
  const int m = g.node("mean.dim", {V("self", square), L("dim", {2}), B("keepdim", true), N("dtype")}, {8, 32, 1});
  const int e = g.node("add.Scalar", {V("self", m), F("other", 1e-6), I("alpha", 1)}, {8, 32, 1});
  const int r = g.node("rsqrt.default", {V("self", e)}, {8, 32, 1});
  const int y = g.node("mul.Tensor", {V("self", x), V("other", r)}, {8, 32, 64});
  g.output(best_of(g, y, 1, {8, 64}));
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  CHECK(p.regions[0].outputs == std::vector<int>{r});
  CHECK(p.regions[1].nodes == std::vector<int>{4, 5});
  sound(g.graph, p);
}

TEST_CASE("a norm of a norm over other dims: each keeps its statistics") {
  GraphBuilder g;
  const int x = g.input(full);
  const auto first = group_norm(g, x, full, 4);
  const int y =
      g.node("native_layer_norm.default",
             {V("input", first[0]), L("normalized_shape", {64}), N("weight"), N("bias"), F("eps", 1e-5)}, full);
  const int mean = g.value({4, 16, 1}), rstd = g.value({4, 16, 1});
  g.graph.nodes.back().outs = {y, mean, rstd};
  g.output(best_of(g, y, 1, {4, 64}));
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 3);
  CHECK(p.regions[0].outputs == std::vector<int>{first[1], first[2]});
  CHECK(p.regions[1].outputs == std::vector<int>{mean, rstd});
  CHECK(bytes(p) < 3.3 * tensor);
  sound(g.graph, p);
}

TEST_CASE("statistics that are returned as a view are stored as the readers want them") {
  GraphBuilder g;
  const int x = g.input({8, 32, 64});
  const int top = g.node("amax.default", {V("self", x), L("dim", {2}), B("keepdim", true)}, {8, 32, 1});
  const int y = g.node("sub.Tensor", {V("self", x), V("other", top), I("alpha", 1)}, {8, 32, 64});
  g.output(best_of(g, y, 1, {8, 64}));
  g.output(g.node("view.default", {V("self", top), L("size", {256})}, {256}));
  const Partition p = cut(g.graph);
  CHECK(p.regions.size() == 2);
  CHECK_FALSE(writes(p, y));
  CHECK(writes(p, top));
  sound(g.graph, p);
}
