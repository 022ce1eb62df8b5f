// Kernels that fold along rows and across them: how graphs become such kernels, what they may not be, and how they are
// cut for a GPU.
#include "codegen/row_and_column.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/genome.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"
#include "codegen/run_kernel.h"
#include "codegen/templates/row_and_column/cuda_row_and_column_plan.h"
#include "row_and_column_samples.h"

using namespace planish;
using namespace planish::codegen;

namespace {

int sum(GraphBuilder& g, int x, const Shape& shape, std::vector<std::int64_t> dims) {
  Shape left;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (std::ranges::find(dims, static_cast<std::int64_t>(d)) == dims.end()) left.push_back(shape[d]);
  }
  return g.node("sum.dim_IntList", {V("self", x), L("dim", std::move(dims)), B("keepdim", false), N("dtype")}, left);
}

Partition cut(const GraphBuilder& g) {
  auto result = partition(g.graph, {});
  REQUIRE(result.has_value());
  return *result;
}

Device gpu() {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  return device;
}

}  // namespace

TEST_CASE("row sums and column sums of one tensor are one kernel, the contiguous dim its row") {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{6, 5}, {5, 6}, {4, 4}}) {
    GraphBuilder g;
    const int x = g.input({rows, cols});
    const int a = sum(g, x, {rows, cols}, {1}), b = sum(g, x, {rows, cols}, {0});
    g.output(a);
    g.output(b);
    const auto kernel = all_of(g, {a, b});
    REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
    CHECK(kernel->anchor == Anchor::row_and_column);
    CHECK(kernel->space.extents == std::vector<std::int64_t>{rows, cols});
    CHECK(kernel->outputs[0].per_row);
    CHECK(kernel->outputs[1].per_column);
    CHECK(row_column_broken(*kernel).empty());
    const auto out = run(*kernel);
    for (std::int64_t r = 0; r < rows; ++r) {
      double want = 0;
      for (std::int64_t c = 0; c < cols; ++c)
        want += element(static_cast<std::size_t>(x), static_cast<std::size_t>(r * cols + c));
      CHECK(out[0][static_cast<std::size_t>(r)] == doctest::Approx(want));
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      double want = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        want += element(static_cast<std::size_t>(x), static_cast<std::size_t>(r * cols + c));
      CHECK(out[1][static_cast<std::size_t>(c)] == doctest::Approx(want));
    }
    CHECK(cut(g).regions.size() == 1);
  }
}

TEST_CASE("a transposed view of the scores, as in a contrastive loss, is read along memory once") {
  GraphBuilder g;
  const int x = g.input({9, 9});
  const int t = g.node("t.default", {V("self", x)}, {9, 9}, DType::f32, {1, 9});
  const int a = g.node("logsumexp.default", {V("self", x), L("dim", {1}), B("keepdim", false)}, {9});
  const int b = g.node("logsumexp.default", {V("self", t), L("dim", {1}), B("keepdim", false)}, {9});
  g.output(a);
  g.output(b);
  const Partition p = cut(g);
  REQUIRE(p.regions.size() == 1);
  const Kernel& kernel = p.regions[0].kernel;
  CHECK(kernel.anchor == Anchor::row_and_column);
  CHECK(std::ranges::count(kernel.nodes, Op::load, &Node::op) == 1);
  CHECK(row_column_pairs(kernel, false).size() == 1);
  CHECK(row_column_pairs(kernel, true).size() == 1);
  CHECK_FALSE(needs_whole_rows(kernel));
  const auto out = run(kernel);
  double want = 0;
  for (std::size_t r = 0; r < 9; ++r) want += std::exp(element(static_cast<std::size_t>(x), r * 9 + 4));
  CHECK(out[1][4] == doctest::Approx(std::log(want)));
}

TEST_CASE("what is stored of every element goes along") {
  for (const std::int64_t cols : {7, 12}) {
    GraphBuilder g;
    const Shape shape{12, cols};
    const int x = g.input(shape);
    const int y = g.node("relu.default", {V("self", x)}, shape);
    const int a = sum(g, y, shape, {0}), b = sum(g, y, shape, {1});
    for (const int id : {y, a, b}) g.output(id);
    const Partition p = cut(g);
    REQUIRE(p.regions.size() == 1);
    const Kernel& kernel = p.regions[0].kernel;
    CHECK(kernel.anchor == Anchor::row_and_column);
    CHECK(std::ranges::count(kernel.nodes, Op::load, &Node::op) == 1);
    const auto out = run(kernel);
    double want = 0;
    for (std::int64_t r = 0; r < 12; ++r)
      want += std::max(0.0, element(static_cast<std::size_t>(x), static_cast<std::size_t>(r * cols + 3)));
    CHECK(out[1][3] == doctest::Approx(want));
  }
}

TEST_CASE("matrices side by side share a common variable") {
  GraphBuilder g;
  const Shape shape{3, 4, 5};
  const int x = g.input(shape);
  const int a = sum(g, x, shape, {2}), b = sum(g, x, shape, {1});
  const auto kernel = all_of(g, {a, b});
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(kernel->space.extents == shape);
  CHECK(kernel->across == 1);
  CHECK(kernel->inner == 1);
  // Over the batch for each place, and over places for each channel of each image: the channel is common.
  GraphBuilder h;
  const Shape image{4, 3, 5, 2};
  const int y = h.input(image);
  const int c = sum(h, y, image, {2, 3}), d = sum(h, y, image, {0});
  const auto both = all_of(h, {c, d});
  REQUIRE_MESSAGE(both.has_value(), (both ? "" : both.error().message));
  CHECK(both->space.extents == Shape{3, 4, 10});
  const auto out = run(*both);
  double want = 0;
  for (std::size_t n = 0; n < 4; ++n) want += element(static_cast<std::size_t>(y), n * 30 + 2 * 10 + 7);
  CHECK(out[1][2 * 10 + 7] == doctest::Approx(want));
}

TEST_CASE("columns may be folded of what needs a row's results, up to the length that a block knows as a whole") {
  const auto graph = [](std::int64_t rows, std::int64_t cols, bool stored) {
    GraphBuilder g;
    const int x = g.input({rows, cols});
    const int y = g.node("_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, {rows, cols});
    g.output(sum(g, y, {rows, cols}, {0}));
    if (stored) g.output(y);
    return g;
  };
  for (const bool stored : {false, true}) {
    const Partition p = cut(graph(64, 300, stored));
    REQUIRE(p.regions.size() == 1);
    CHECK(p.regions[0].kernel.anchor == Anchor::row_and_column);
    CHECK(needs_whole_rows(p.regions[0].kernel));
    CHECK(cut(graph(64, 50000, stored)).regions.size() == 2);
  }
}

TEST_CASE("what depends on the columns' results is another kernel") {
  GraphBuilder g;
  const Shape shape{8, 6};
  const int x = g.input(shape);
  const int rows = sum(g, x, shape, {1}), columns = sum(g, x, shape, {0});
  const int y = g.node("sub.Tensor", {V("self", x), V("other", columns), I("alpha", 1)}, shape);
  g.output(rows);
  g.output(y);
  CHECK_FALSE(all_of(g, {rows, y}).has_value());
  const Partition p = cut(g);
  CHECK(p.regions.size() == 2);
  for (const Region& region : p.regions) {
    const bool stores = std::ranges::find(region.outputs, y) != region.outputs.end();
    CHECK_FALSE((stores && region.kernel.anchor == Anchor::row_and_column));
  }
  // A column's extreme minus the row that was found of it: neither of them is known to the other.
  GraphBuilder h;
  const int z = h.input({6, 6});
  const int both =
      h.node("add.Tensor", {V("self", sum(h, z, {6, 6}, {1})), V("other", sum(h, z, {6, 6}, {0})), I("alpha", 1)}, {6});
  h.output(both);
  const auto joined = all_of(h, {both});
  CHECK((!joined || joined->anchor == Anchor::row));
}

TEST_CASE("the data count once, and what is made of a column once for each") {
  const Kernel kernel = samples::both_logsumexp(64, 16).kernel;
  CHECK(cost(kernel).bytes == doctest::Approx(4.0 * (64 * 16 + 64 + 16 + 16)));
  Kernel logs = samples::both_sums(64, 16).kernel;
  const double before = cost(logs).flops;
  Node node;
  node.op = Op::log;
  node.args = {logs.outputs[1].node};
  logs.nodes.push_back(node);
  logs.outputs[1].node = static_cast<int>(logs.nodes.size()) - 1;
  CHECK(cost(logs).flops - before == doctest::Approx(10 * 16));
}

TEST_CASE("a kernel that breaks a rule says which") {
  const auto broken = [](auto change) {
    Kernel kernel = samples::both_logsumexp(8, 16).kernel;
    CHECK(row_column_broken(kernel).empty());
    change(kernel);
    return row_column_broken(kernel);
  };
  CHECK(broken([](Kernel& k) { k.reductions[0].kind = ReduceKind::argmax; }).contains("positions"));
  CHECK(broken([](Kernel& k) { k.outputs[1].node = k.outputs[0].node; }).contains("needs a row"));
  CHECK(broken([](Kernel& k) { k.outputs[0].node = k.outputs[1].node; }).contains("needs a column"));
  CHECK(broken([](Kernel& k) { k.reductions[3].kind = ReduceKind::max; }).contains("when all rows are done"));
  CHECK(broken([](Kernel& k) {
          k.nodes[0].index = ir::add(ir::IndexExpr::variable(0), ir::scale(ir::IndexExpr::variable(1), 8), k.space);
        }).contains("memory"));
  CHECK(row_column_broken(samples::softmax_sums(8, 70000, false).kernel).contains("too long"));
}

TEST_CASE("every sample has seeds, and each of them and random genomes are legal and emit") {
  std::mt19937_64 rng(3);
  auto all = samples::cross_samples();
  for (auto& sample : samples::large_cross_samples()) all.push_back(std::move(sample));
  for (const auto& sample : all) {
    if (sample.kernel.anchor != Anchor::row_and_column) continue;
    REQUIRE(row_column_broken(sample.kernel).empty());
    const auto some = seeds(sample.kernel, gpu());
    REQUIRE(!some.empty());
    CHECK(illegal(sample.kernel, gpu(), random_genome(sample.kernel, gpu(), rng)).empty());
    const auto made = emit(sample.kernel, gpu(), some.front());
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    CHECK_FALSE(made->after.empty());
    CHECK_FALSE(made->scratch_bytes.empty());
    CHECK(made->source == emit(sample.kernel, gpu(), some.front())->source);
  }
}

TEST_CASE("a chain of additions stays as short as accuracy asks, whatever the number of blocks") {
  const Kernel kernel = samples::both_sums(1 << 20, 96).kernel;
  Genome genome{{"threads", 256},  {"vector", 16}, {"unroll", 1}, {"hints", 0}, {"fast", 0},
                {"min_blocks", 1}, {"across", 32}, {"trips", 1},  {"blocks", 1}};
  const auto plan = printing::make_row_column_plan(kernel, gpu(), genome);
  CHECK(plan.chunk_rows / plan.base.rows <= printing::longest_chain);
  CHECK(plan.whole());
}

TEST_CASE("on a CPU, threads that would need too much memory for their columns are fewer") {
  Device many;
  many.arch = "x86-64-v3";
  many.sms = 128;
  const Kernel kernel = samples::both_sums(4096, 1 << 22).kernel;
  const auto some = seeds(kernel, many);
  REQUIRE(!some.empty());
  Genome genome = some.front();
  CHECK(genome.at("threads") < 128);
  CHECK(emit(kernel, many, genome).has_value());
  genome["threads"] = 128;
  CHECK(illegal(kernel, many, genome).contains("do not fit"));
  CHECK(row_column_broken(samples::both_sums(2, std::int64_t{1} << 27).kernel).contains("too many columns"));
}

TEST_CASE("genomes that cannot be are refused by name") {
  const Kernel kernel = samples::softmax_sums(4096, 4096, false).kernel;
  Genome genome = seeds(kernel, gpu()).front();
  const auto with = [&](Genome changes) {
    Genome out = genome;
    for (const auto& [name, value] : changes) out[name] = value;
    return illegal(kernel, gpu(), out);
  };
  CHECK(with({{"across", 32}, {"trips", 1}}).contains("whole row"));
  CHECK(with({{"threads", 64}, {"across", 1024}}).contains("more threads share a row"));
  CHECK(with({{"threads", 1024}, {"across", 1024}, {"trips", 32}}).contains("last turn"));
  CHECK(with({{"threads", 128}, {"across", 128}, {"trips", 8}, {"vector", 16}, {"unroll", 16}}).contains("under way"));
}
