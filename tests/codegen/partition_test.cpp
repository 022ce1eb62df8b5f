#include "codegen/partition/partition.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/sound.h"

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
  const int x = g.input({4, 8}), y = g.input({4, 8});
  g.output(g.node("exp.default", {V("self", x)}, {4, 8}));
  g.output(g.node("neg.default", {V("self", x)}, {4, 8}));
  g.output(g.node("exp.default", {V("self", y)}, {4, 8}));
  g.output(g.node("neg.default", {V("self", y)}, {4, 8}));
  const Partition p = cut(g.graph);
  REQUIRE(p.regions.size() == 2);
  CHECK(p.regions[0].outputs.size() == 2);
  CHECK(canonical_key(p.regions[0]) == canonical_key(p.regions[1]));
  sound(g.graph, p);
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
  device.target = Target::cuda;
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
  CHECK(compose(g.graph, p, {}, cpu()).error().kind == "bad_argument");
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
