// Elements that are stored while they are folded: which graphs become such kernels, and in which sweep they are stored.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/devices.h"
#include "codegen/emit/early_stores.h"
#include "codegen/genome.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"
#include "codegen/run_kernel.h"
#include "codegen/sound.h"
#include "codegen/templates/column/cuda_column_plan.h"
#include "early_samples.h"

using namespace planish;
using namespace planish::codegen;

namespace {

int relu(GraphBuilder& g, int x) {
  const ir::Value v = g.graph.values[static_cast<std::size_t>(x)];
  return g.node("relu.default", {V("self", x)}, v.shape, v.dtype, v.strides);
}
int view(GraphBuilder& g, int x, const Shape& shape) {
  return g.node("view.default", {V("self", x), L("size", shape)}, shape);
}
int sum(GraphBuilder& g, int x, std::vector<std::int64_t> dims, bool keep = false) {
  Shape left;
  const Shape shape = g.graph.values[static_cast<std::size_t>(x)].shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool folded = std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end();
    if (!folded || keep) left.push_back(folded ? 1 : shape[d]);
  }
  return g.node("sum.dim_IntList", {V("self", x), L("dim", std::move(dims)), B("keepdim", keep), N("dtype")}, left);
}

/// Both as one kernel, which loads each element once, against both alone.
Kernel together(const GraphBuilder& g, const std::vector<int>& outputs) {
  const auto kernel = all_of(g, outputs);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(kernel->anchor == Anchor::row);
  CHECK_MESSAGE(std::ranges::count(kernel->nodes, Op::load, &Node::op) == 1, text(*kernel));
  CHECK_FALSE(printing::stores_last(*kernel));
  const auto out = run(*kernel);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto alone = all_of(g, {outputs[o]});
    REQUIRE(alone.has_value());
    const auto want = run(*alone)[0];
    REQUIRE(out[o].size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(out[o][i] == doctest::Approx(want[i]));
  }
  return *kernel;
}

Partition cut(const GraphBuilder& g) {
  auto result = partition(g.graph, {});
  REQUIRE(result.has_value());
  return *result;
}

std::string body(const Emitted& emitted) {
  const auto at = emitted.source.find("planish_kernel(");
  return emitted.source.substr(at);
}
std::ptrdiff_t count(const std::string& text, std::string_view what) {
  std::ptrdiff_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}
Genome complete(const Kernel& kernel, Genome genome) {
  for (const auto& one : genes(kernel, h200())) genome.try_emplace(one.name, one.choices.front());
  return genome;
}

}  // namespace

TEST_CASE("elements and their sums over any dims are one kernel, also where extents are equal") {
  for (const auto& shape : {Shape{6, 5}, Shape{5, 5}}) {
    for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{0}, {1}, {0, 1}}) {
      for (const bool keep : {false, true}) {
        GraphBuilder g;
        const int y = relu(g, g.input(shape));
        together(g, {y, sum(g, y, dims, keep)});
      }
    }
  }
  for (const auto& shape : {Shape{3, 4, 5}, Shape{4, 4, 4}}) {
    for (const std::vector<std::int64_t>& dims :
         {std::vector<std::int64_t>{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}}) {
      GraphBuilder g;
      const int y = relu(g, g.input(shape));
      const int s = sum(g, y, dims);
      CHECK(together(g, {s, y}).outputs[0].per_row);
    }
  }
}

TEST_CASE("views of either side merge and split the space") {
  GraphBuilder merged;  // elements (B·T, C), sums (B, T)
  const int a = relu(merged, merged.input({6, 5}));
  together(merged, {a, sum(merged, view(merged, a, {2, 3, 5}), {2})});
  GraphBuilder split;  // elements (B, T, C), sums (B·T), and of columns (C)
  const int b = relu(split, split.input({2, 3, 5}));
  const int flat = view(split, b, {6, 5});
  together(split, {b, sum(split, flat, {1})});
  together(split, {b, sum(split, flat, {0})});
  GraphBuilder square;  // (64, 64) of which both halves split alike
  const int c = relu(square, square.input({16, 16}));
  together(square, {c, sum(square, view(square, c, {4, 4, 16}), {2})});
  together(square, {c, sum(square, view(square, c, {16, 4, 4}), {0})});
  GraphBuilder turned;
  const int d = relu(turned, turned.input({6, 5}));
  const int t = turned.node("t.default", {V("self", d)}, {5, 6}, DType::f32, {1, 5});
  together(turned, {d, sum(turned, t, {0})});
  together(turned, {d, sum(turned, t, {1})});
}

TEST_CASE("several folds of one row go along, and what has one element a row") {
  GraphBuilder g;
  const int x = g.input({6, 5}), w = g.input({6});
  const int y = relu(g, x);
  const int s = sum(g, y, {1});
  const int most = g.node("amax.default", {V("self", y), L("dim", {1}), B("keepdim", false)}, {6});
  const int small = g.node("neg.default", {V("self", w)}, {6});
  for (const auto& outputs : {std::vector<int>{y, small, s, most}, {small, s, y, most}}) {
    const auto kernel = all_of(g, outputs);
    REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
    for (const Output& o : kernel->outputs) CHECK(o.per_row == (o.value != y));
    const auto out = run(*kernel);
    const auto at = static_cast<std::size_t>(std::ranges::find(outputs, small) - outputs.begin());
    CHECK(out[at][4] == doctest::Approx(-element(static_cast<std::size_t>(w), 4)));
  }
}

TEST_CASE("a small result that nothing folds is not written many times") {
  GraphBuilder g;
  const int y = relu(g, g.input({6, 5}));
  const int rows = relu(g, g.input({6})), columns = relu(g, g.input({5}));
  CHECK_FALSE(all_of(g, {y, rows}).has_value());
  CHECK_FALSE(all_of(g, {y, columns}).has_value());
  // Beside sums of columns the other one has no place.
  CHECK_FALSE(all_of(g, {y, sum(g, y, {0}), rows}).has_value());
  CHECK(all_of(g, {y, sum(g, y, {1}), rows}).has_value());
  // Nor has what is folded of something else than the space's rows.
  GraphBuilder h;
  const int z = relu(h, h.input({6, 5}));
  CHECK_FALSE(all_of(h, {z, sum(h, h.input({6, 7}), {1})}).has_value());
  CHECK_FALSE(all_of(h, {z, sum(h, z, {0}), sum(h, z, {0, 1})}).has_value());
}

TEST_CASE("what must be stored is folded on the way; what need not be is not stored for it") {
  GraphBuilder g;
  const int x = g.input({64, 32}), grad = g.input({64, 32});
  const int dx = g.node("mul.Tensor", {V("self", grad), V("other", relu(g, x))}, {64, 32});
  g.output(dx);
  g.output(sum(g, dx, {0}));
  const Partition p = cut(g);
  REQUIRE(p.regions.size() == 1);
  CHECK(cost(p.regions[0].kernel).bytes == 4 * (3 * 64 * 32 + 32));
  testing::sound(g.graph, p);
  // Measuring may part them again: each reads what was stored, or makes it again.
  const auto ways = fusion_plans(g.graph, p, h200());
  CHECK(std::ranges::any_of(ways, [](const FusionPlan& way) { return way.by.size() == 2; }));

  GraphBuilder unseen;  // relu(x) itself is not asked for
  const int y = relu(unseen, unseen.input({64, 32}));
  unseen.output(sum(unseen, y, {1}));
  unseen.output(sum(unseen, y, {0, 1}));
  for (const Region& region : cut(unseen).regions) {
    for (const Output& o : region.kernel.outputs) CHECK(o.per_row);
  }
}

TEST_CASE("joining what is stored and folded makes no circle") {
  // The sum comes from y, and y2 from an operator between them that is no kernel.
  GraphBuilder g;
  const int x = g.input({8, 8});
  const int y = relu(g, x);
  g.output(y);
  const int m = g.node("mm.default", {V("self", y), V("mat2", x)}, {8, 8});
  const int z = g.node("add.Tensor", {V("self", y), V("other", m), I("alpha", 1)}, {8, 8});
  g.output(sum(g, z, {1}));
  const Partition p = cut(g);
  CHECK(p.regions.size() == 2);
  testing::sound(g.graph, p);
}

TEST_CASE("outputs are stored in the sweep that costs the fewest loads, and no earlier than needed") {
  using V = std::vector<int>;
  CHECK(printing::store_sweeps(samples::stored_folds(2, 3, 4, 1).kernel) == V{0, -1, -1});
  CHECK(printing::store_sweeps(samples::stored_moments(2, 3, 4, 2).kernel) == V{-1, 0, -1});
  CHECK(printing::store_sweeps(samples::stored_twice(2, 3, 4, 2).kernel) == V{1, 0});
  CHECK(printing::store_sweeps(samples::stored_centred(2, 3, 4, 2).kernel) == V{1, -1});
  // A second phase that is folded along has no sweep.
  const auto only_first = [](int phase) { return phase == 0; };
  CHECK(printing::store_sweeps(samples::stored_centred(2, 3, 4, 2).kernel, only_first) == V{2, -1});
  // Softmax reads its data again anyway.
  CHECK(printing::store_sweeps(samples::softmax(4, 64).kernel) == V{2});
  CHECK(printing::stores_last(samples::softmax(4, 64).kernel));
}

TEST_CASE("a row is loaded, stored and folded in one sweep") {
  const auto sample = samples::stored_folds(1, 300, 1000, 2);
  const auto genome = complete(sample.kernel, {{"threads", 128}, {"vector", 16}, {"unroll", 2}});
  const auto text = body(*emit(sample.kernel, h200(), genome));
  CHECK(count(text, "in0 + ") == 1);
  CHECK(count(text, "pl_store<0, 4>(out0 + ") == 1);
  CHECK(text.find("pl_store") < text.find("red0 = "));
  // Nothing stays on chip for a sweep that is not there.
  for (const auto& gene : genes(sample.kernel, h200())) {
    for (const char* name :
         {"residency", "persistent_rows", "stages", "reverse", "partial_residency", "operand_residency"}) {
      if (gene.name == name) CHECK_MESSAGE(gene.choices.size() == 1, gene.name);
    }
    if (gene.name == "hints") CHECK(gene.choices.size() == 4);
  }
  // A half-filled block of rows, and a row that vectors do not fill.
  const auto odd = samples::stored_folds(3, 37, 45, 2);
  const auto tail =
      body(*emit(odd.kernel, h200(), complete(odd.kernel, {{"threads", 64}, {"rows", 4}, {"vector", 16}})));
  CHECK(tail.find("if (live) {\n") != std::string::npos);
  CHECK(tail.find("if (e0 >= 0 && e0 + 4 <= 45) {") != std::string::npos);
}

TEST_CASE("a block that walks asks for its next row in the sweep that reads last, though it folds") {
  const auto sample = samples::stored_centred(1, 90, 256, 2);
  const auto genome = complete(
      sample.kernel, {{"threads", 32}, {"vector", 16}, {"residency", 2}, {"persistent_rows", 4}, {"unroll", 1}});
  REQUIRE(illegal(sample.kernel, h200(), genome) == "");
  const auto text = body(*emit(sample.kernel, h200(), genome));
  const auto folds = text.find("acc1[j] = "), refills = text.find("if (group + 1 < upto) {");
  REQUIRE(refills != std::string::npos);
  CHECK(folds < refills);
  CHECK(refills < text.find("red1 = "));
  CHECK(count(text, "if (group + 1 < upto) {") == 1);
}

TEST_CASE("columns that blocks share are stored by the launch that folds them") {
  const auto sample = samples::stored_folds(1, 4096, 256, 1);
  const auto genome =
      complete(sample.kernel, {{"threads", 128}, {"vector", 16}, {"split", 16}, {"grid_split", 8}, {"unroll", 2}});
  REQUIRE(illegal(sample.kernel, h200(), genome) == "");
  const auto first = *emit(sample.kernel, h200(), genome);
  REQUIRE(first.after.size() == 1);
  CHECK(count(body(first), "in0 + ") == 1);
  CHECK(count(body(first), "(out0 + ") == 1);
  CHECK(count(body(first), "out1") == 0);
  CHECK(count(body(first.after[0]), "out0") == 0);
  CHECK(count(body(first.after[0]), "in0 + ") == 0);
  CHECK(count(body(first.after[0]), "out1") == 2);
  using Kind = Emitted::Argument::Kind;
  const auto outputs = [](const Emitted& one) {
    std::vector<int> out;
    for (const auto& arg : one.args) {
      if (arg.kind == Kind::output) out.push_back(arg.index);
    }
    return out;
  };
  CHECK(outputs(first) == std::vector<int>{0});
  CHECK(outputs(first.after[0]) == std::vector<int>{1, 2});
}

TEST_CASE("a moving mean and its squares are folded along, and the element stored") {
  const auto sample = samples::stored_moments(1, 130, 512, 2);
  const auto genome = complete(sample.kernel, {{"threads", 64}, {"vector", 16}, {"online", 1}});
  REQUIRE(illegal(sample.kernel, h200(), genome) == "");
  const auto text = body(*emit(sample.kernel, h200(), genome));
  CHECK(count(text, "in0 + ") == 1);
  CHECK(count(text, "(out1 + ") == 1);
}

TEST_CASE("a team stores on the way, too, and begins with a row ahead only where it writes last") {
  Device device = h200();
  device.shared_bytes = 4096;
  const auto twice = samples::stored_twice(1, 6, 4100, 2), moments = samples::stored_moments(1, 5, 6000, 2);
  for (const auto* sample : {&twice, &moments}) {
    Genome genome;
    for (const auto& gene : genes(sample->kernel, device)) genome[gene.name] = gene.choices.front();
    genome["cooperative"] = 11;
    genome["threads"] = 32;
    genome["vector"] = 16;
    CHECK(illegal(sample->kernel, device, genome) == "");
    genome["pipeline_depth"] = 1;
    CHECK(illegal(sample->kernel, device, genome).empty() == (sample == &twice));
  }
}
