// Kernels that know rows and fold parts of them: how graphs become such kernels, what they may not be, and how their
// elements are put together on a GPU.
#include "codegen/segments.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/emit/cuda_pieces.h"
#include "codegen/genome.h"
#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"
#include "codegen/run_kernel.h"
#include "codegen/templates/column/cuda_column_plan.h"
#include "codegen/templates/segmented_row/cuda_segments.h"
#include "cooperative_genomes.h"
#include "devices.h"
#include "segment_samples.h"

using namespace planish;
using namespace planish::codegen;

namespace {

int fold(GraphBuilder& g, std::string_view op, int x, std::vector<std::int64_t> dims, const Shape& shape,
         DType dtype = DType::f32) {
  const std::string name(op);
  if (op == "mean.dim" || op == "sum.dim_IntList")
    return g.node(name, {V("self", x), L("dim", std::move(dims)), B("keepdim", false), N("dtype")}, shape, dtype);
  return g.node(name, {V("self", x), L("dim", std::move(dims)), B("keepdim", false)}, shape, dtype);
}

int group_norm(GraphBuilder& g, int x, const Shape& shape, std::int64_t groups) {
  std::int64_t plane = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) plane *= shape[d];
  const int w = g.input({shape[1]}), b = g.input({shape[1]});
  const int y = g.node("native_group_norm.default",
                       {V("input", x), V("weight", w), V("bias", b), I("N", shape[0]), I("C", shape[1]),
                        I("HxW", plane), I("group", groups), F("eps", 1e-5)},
                       shape);
  g.graph.nodes.back().outs = {y, g.value({shape[0], groups}), g.value({shape[0], groups})};
  return y;
}

int layer_norm(GraphBuilder& g, int x, const Shape& shape, std::size_t dims) {
  const Shape normalized(shape.end() - static_cast<std::ptrdiff_t>(dims), shape.end());
  Shape kept = shape;
  std::fill(kept.end() - static_cast<std::ptrdiff_t>(dims), kept.end(), 1);
  const int y =
      g.node("native_layer_norm.default",
             {V("input", x), L("normalized_shape", normalized), N("weight"), N("bias"), F("eps", 1e-5)}, shape);
  g.graph.nodes.back().outs = {y, g.value(kept), g.value(kept)};
  return y;
}

/// (x - mean) / σ of `length` elements of input x from `from` on, then f over those of [begin, begin + count).
double normalised_sum(int x, std::size_t from, std::size_t length, std::size_t begin, std::size_t count,
                      const std::function<double(double, std::size_t)>& f) {
  double mean = 0, var = 0, sum = 0;
  const auto at = [&](std::size_t i) { return element(static_cast<std::size_t>(x), i); };
  for (std::size_t i = from; i < from + length; ++i) mean += at(i) / static_cast<double>(length);
  for (std::size_t i = from; i < from + length; ++i)
    var += (at(i) - mean) * (at(i) - mean) / static_cast<double>(length);
  for (std::size_t i = begin; i < begin + count; ++i) sum += f((at(i) - mean) / std::sqrt(var + 1e-5), i);
  return sum;
}

Partition cut(const GraphBuilder& g) {
  auto result = partition(g.graph, {});
  REQUIRE(result.has_value());
  return *result;
}

int loads_of(const Kernel& kernel, int value) {
  return static_cast<int>(std::ranges::count_if(kernel.nodes, [&](const Node& n) {
    return n.op == Op::load && kernel.inputs[static_cast<std::size_t>(n.input)].value == value;
  }));
}

}  // namespace

TEST_CASE("a group norm, an activation and the mean of each channel are one kernel that reads once") {
  GraphBuilder g;
  const Shape shape{2, 6, 8, 16};
  const int x = g.input(shape);
  const int y = g.node("silu.default", {V("self", group_norm(g, x, shape, 3))}, shape);
  g.output(fold(g, "mean.dim", y, {2, 3}, {2, 6}));
  const Partition p = cut(g);
  REQUIRE(p.regions.size() == 1);
  const Kernel& kernel = p.regions[0].kernel;
  CHECK(kernel.anchor == Anchor::segmented_row);
  CHECK(kernel.space.extents == Shape{2, 3, 2, 128});
  CHECK(kernel.inner == 2);
  CHECK(kernel.parts == 1);
  CHECK(loads_of(kernel, x) == 1);
  CHECK(segments_broken(kernel).empty());
  CHECK(std::ranges::count(kernel.reductions, true, &Reduction::part) == 1);
  CHECK(kernel.outputs[0].per_part);
  CHECK(cost(kernel).bytes < 1.05 * 4 * 2 * 6 * 128);
  const auto out = run(kernel);
  for (std::size_t c = 0; c < 12; ++c) {
    const double want = normalised_sum(x, c / 2 * 256, 256, c * 128, 128, [&](double v, std::size_t) {
      const double z = v * element(1, c % 6) + element(2, c % 6);
      return z / (1 + std::exp(-z)) / 128;
    });
    CHECK(out[0][c] == doctest::Approx(want));
  }
}

TEST_CASE("a layer norm over several dims and folds over the last of them; more parts' and rows' results beside") {
  GraphBuilder g;
  const Shape shape{3, 4, 8, 16};
  const int x = g.input(shape);
  const int y = layer_norm(g, x, shape, 3);
  const int top = fold(g, "amax.default", y, {2, 3}, {3, 4}), mean = fold(g, "mean.dim", y, {2, 3}, {3, 4});
  const int whole = fold(g, "sum.dim_IntList", x, {1, 2, 3}, {3});
  for (const int id : {top, mean, whole}) g.output(id);
  const auto kernel = all_of(g, {top, mean, whole});
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(kernel->anchor == Anchor::segmented_row);
  CHECK(kernel->space.extents == Shape{3, 4, 128});
  CHECK(kernel->outputs[2].per_row);
  const auto out = run(*kernel);
  const double want = normalised_sum(x, 512, 512, 512 + 2 * 128, 128, [](double v, std::size_t) { return v / 128; });
  CHECK(out[1][4 + 2] == doctest::Approx(want));
  CHECK(cut(g).regions.size() == 1);
  // An instance norm, then a fold over the last of its dims.
  GraphBuilder h;
  const Shape image{2, 3, 4, 64};
  const int z = group_norm(h, h.input(image), image, 3);
  h.output(fold(h, "amax.default", z, {3}, {2, 3, 4}));
  const Partition p = cut(h);
  REQUIRE(p.regions.size() == 1);
  CHECK(p.regions[0].kernel.anchor == Anchor::segmented_row);
  CHECK(p.regions[0].kernel.space.extents == Shape{2, 3, 4, 64});
}

TEST_CASE("a softmax of rows, then sums of their parts, whichever view says so") {
  GraphBuilder g;
  const int x = g.input({5, 256});
  const int y = g.node("_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, {5, 256});
  const int v = g.node("view.default", {V("self", y), L("size", {5, 4, 64})}, {5, 4, 64});
  g.output(fold(g, "sum.dim_IntList", v, {2}, {5, 4}));
  const Partition p = cut(g);
  REQUIRE(p.regions.size() == 1);
  const Kernel& kernel = p.regions[0].kernel;
  CHECK(kernel.anchor == Anchor::segmented_row);
  const auto out = run(kernel);
  CHECK(out[0][4] + out[0][5] + out[0][6] + out[0][7] == doctest::Approx(1));
  double part = 0, row = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    const double e = std::exp(element(static_cast<std::size_t>(x), 256 + i));
    row += e;
    part += i >= 128 && i < 192 ? e : 0;
  }
  CHECK(out[0][6] == doctest::Approx(part / row));
}

TEST_CASE("what is stored of every element goes along") {
  GraphBuilder g;
  const Shape shape{4, 8, 64};
  const int x = g.input(shape);
  const int y = group_norm(g, x, shape, 2);
  const int m = fold(g, "mean.dim", y, {2}, {4, 8});
  g.output(y);
  g.output(m);
  const Partition p = cut(g);
  REQUIRE(p.regions.size() == 1);
  const Kernel& kernel = p.regions[0].kernel;
  CHECK(kernel.anchor == Anchor::segmented_row);
  const auto out = run(kernel);
  double want = 0;
  for (std::size_t i = 0; i < 64; ++i) want += out[0][9 * 64 + i] / 64;
  CHECK(out[1][9] == doctest::Approx(want));
}

TEST_CASE("what is no part along memory, or of no whole pieces, or is needed again, stays another kernel") {
  const auto one = [](GraphBuilder& g, int out) {
    g.output(out);
    const Partition p = cut(g);
    return std::ranges::count_if(p.regions, [](const Region& r) { return r.kernel.anchor == Anchor::segmented_row; });
  };
  const Shape shape{2, 8, 128};
  {
    GraphBuilder g;  // the leading dim of the rows
    const int y = layer_norm(g, g.input(shape), shape, 2);
    CHECK(one(g, fold(g, "mean.dim", y, {1}, {2, 128})) == 0);
  }
  {
    GraphBuilder g;  // channels of 60 elements
    const Shape odd{2, 8, 60};
    CHECK(one(g, fold(g, "mean.dim", group_norm(g, g.input(odd), odd, 4), {2}, {2, 8})) == 0);
  }
  {
    GraphBuilder g;  // each channel's mean is taken off it
    const int y = group_norm(g, g.input(shape), shape, 4);
    const int m = g.node("mean.dim", {V("self", y), L("dim", {2}), B("keepdim", true), N("dtype")}, {2, 8, 1});
    CHECK(one(g, g.node("sub.Tensor", {V("self", y), V("other", m), I("alpha", 1)}, shape)) == 0);
  }
  {
    GraphBuilder g;  // where it is largest
    const int y = group_norm(g, g.input(shape), shape, 4);
    CHECK(one(g, g.node("argmax.default", {V("self", y), I("dim", 2), B("keepdim", false)}, {2, 8}, DType::i64)) == 0);
  }
  {
    GraphBuilder g;  // a part's fold with its row's beside it
    const int x = g.input(shape), y = layer_norm(g, x, shape, 2);
    const int m = fold(g, "mean.dim", y, {2}, {2, 8});
    const int top = g.node("amax.default", {V("self", x), L("dim", {1, 2}), B("keepdim", false)}, {2});
    const int wide = g.node("view.default", {V("self", top), L("size", {2, 1})}, {2, 1});
    CHECK(one(g, g.node("mul.Tensor", {V("self", m), V("other", wide)}, {2, 8})) <= 1);
  }
  {
    GraphBuilder g;  // channels last: memory runs across the parts
    const int x = g.input(shape, DType::f32, {1024, 1, 8});
    CHECK(one(g, fold(g, "mean.dim", group_norm(g, x, shape, 4), {2}, {2, 8})) == 0);
  }
  {
    GraphBuilder g;  // parts of two sizes: the second fold is a kernel of its own
    const Shape image{2, 8, 64, 64};
    const int y = group_norm(g, g.input(image), image, 4);
    g.output(fold(g, "mean.dim", y, {3}, {2, 8, 64}));
    CHECK(one(g, fold(g, "amax.default", y, {2, 3}, {2, 8})) == 1);
  }
}

TEST_CASE("what a kernel of parts may not be") {
  const auto sample = samples::part_means(2, 2, 2, 256).kernel;
  CHECK(segments_broken(sample).empty());
  CHECK(part_length(sample) == 256);
  CHECK(parts_of_row(sample) == 2);
  CHECK(least_piece(sample) == 64);
  CHECK(least_piece(samples::part_folds(2, 2, 512, true, DType::f16).kernel) == 512);
  const auto broken = [&](const std::function<void(Kernel&)>& change, Kernel kernel) {
    change(kernel);
    return !segments_broken(kernel).empty();
  };
  CHECK(broken([](Kernel& k) { k.parts = 2; }, sample));
  CHECK(broken([](Kernel& k) { k.reductions.back().kind = ReduceKind::any; }, sample));
  CHECK(broken([](Kernel& k) { k.reductions.back().part = false; }, sample));
  CHECK(broken([](Kernel& k) { k.outputs[0].per_part = false; }, sample));
  CHECK(broken([](Kernel& k) { k.outputs[0].node = k.reductions[0].arg; }, sample));
  CHECK(broken([](Kernel& k) { k.space.extents.back() = 96; }, sample));
  const auto half = samples::part_means(2, 2, 2, 256, DType::bf16).kernel;
  CHECK(segments_broken(half).empty());
  CHECK(broken([](Kernel& k) { k.nodes[0].index = ir::add(k.nodes[0].index, ir::IndexExpr::constant(1), k.space); },
               half));
}

TEST_CASE("every such kernel has ways to be emitted, all of which put little aside and fold it in one order") {
  auto all = samples::parts_samples();
  for (auto& sample : samples::large_parts_samples()) all.push_back(std::move(sample));
  all.push_back(samples::softmax_parts(1, 2, 1 << 20));  // rows that are few
  std::mt19937_64 rng(5);
  for (const auto& sample : all) {
    INFO(sample.family << " " << sample.parameters[0].second);
    CHECK(segments_broken(sample.kernel) == "");
    double read = 0;
    for (const Input& input : sample.kernel.inputs)
      read += static_cast<double>(input.storage_elements) * size_of(input.dtype);
    auto genomes = seeds(sample.kernel, h200());
    REQUIRE_FALSE(genomes.empty());
    for (int i = 0; i < 6; ++i) genomes.push_back(random_genome(sample.kernel, h200(), rng));
    for (const Genome& genome : genomes) {
      INFO(text(genome));
      CHECK(illegal(sample.kernel, h200(), genome).empty());
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
      REQUIRE_FALSE(emitted->after.empty());
      CHECK(emitted->source.find("atomic") == std::string::npos);
      double aside = 0;
      for (const auto& arg : emitted->after.back().args) {
        if (arg.kind == Emitted::Argument::Kind::scratch)
          aside += static_cast<double>(emitted->scratch_bytes[static_cast<std::size_t>(arg.index)]);
      }
      CHECK(64 * aside <= read);
    }
  }
}

TEST_CASE("pieces are as large as a schedule's slices, chunks and parts allow") {
  const auto sample = samples::part_means(64, 8, 8, 512 * 512).kernel;
  const printing::Parted parted(sample);
  const auto column = [&](Genome genome) {
    for (const auto& gene : genes(sample, h200())) genome.try_emplace(gene.name, gene.choices.front());
    REQUIRE(illegal(sample, h200(), genome) == "");
    return printing::make_column_plan(parted.kernel, h200(), genome);
  };
  const Genome team{{"threads", 512}, {"vector", 16}, {"unroll", 2}, {"residency", 2}, {"online", 1}};
  Genome genome = team;
  genome["cooperative"] = 132, genome["pipeline_depth"] = 2;
  auto plan = column(genome);
  CHECK(plan.slices == 128);
  CHECK(plan.slice_length == 4096);
  CHECK(plan.base.pieces.turns == 8);  // all of a slice
  CHECK(plan.base.pieces.count == 524288 / (32 * 8));
  genome["cooperative"] = 33, genome["pipeline_depth"] = 0;
  plan = column(genome);
  CHECK(plan.kept_trips < plan.base.trips);
  CHECK(plan.kept_trips % plan.base.pieces.turns == 0);  // what is read again comes first, in pieces of its own
  CHECK(plan.base.pieces.turns % plan.base.unroll == 0);
  // Channels of 56 × 56: half a warp's vectors are a piece.
  const printing::Parted small(samples::part_means(2, 2, 2, 3136).kernel);
  const auto rows = printing::make_plan(small.kernel, h200(), {{"threads", 256}, {"vector", 16}});
  CHECK(rows.pieces.lanes == 16);
  CHECK(rows.pieces.turns == 1);
  CHECK(printing::pieces_illegal(small.kernel, rows).empty());
  // With a vector of 4 bytes a warp's are too few.
  const auto narrow = printing::make_plan(small.kernel, h200(), {{"threads", 256}, {"vector", 4}});
  CHECK(printing::pieces_illegal(small.kernel, narrow) == "too much would be put aside");
  // Rows side by side in a warp.
  const auto side = printing::make_plan(small.kernel, h200(), {{"threads", 256}, {"vector", 16}, {"rows", 16}});
  CHECK(printing::pieces_illegal(small.kernel, side).find("warp") != std::string::npos);
}

TEST_CASE("elements of parts are folded where others store them, and the weights loaded once a chunk") {
  const auto sample = samples::part_means(3, 2, 4, 4096).kernel;
  Genome genome{{"threads", 256}, {"vector", 16}, {"unroll", 4}, {"residency", 1}};
  for (const auto& gene : genes(sample, h200())) genome.try_emplace(gene.name, gene.choices.front());
  const auto emitted = emit(sample, h200(), genome);
  REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
  const std::string& text = emitted->source;
  const std::string body = text.substr(text.find("extern \"C\""));
  CHECK(body.find("pl_store") == std::string::npos);
  CHECK(body.find("if (u == 3) {") != std::string::npos);
  CHECK(body.find("PlVec<float, 1> r1[1];") != std::string::npos);
  // x is read in one place.
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (std::size_t at = body.find(what); at != std::string::npos; at = body.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count("pl_load<0, 4>(R0") == 1);
  CHECK(count("out0[") == 1);
  CHECK(emitted->after.size() == 1);
  CHECK(emitted->scratch_bytes == std::vector<std::int64_t>{3 * 8 * 4096 / (4 * 4 * 32) * 4});
}

TEST_CASE("Triton and copies by the engine are not offered for parts of rows") {
  Device device = h200();
  device.triton = true;
  const auto sample = samples::part_means(3, 2, 4, 4096).kernel;
  for (const auto& gene : genes(sample, device)) {
    CHECK(gene.name != "language");
    if (gene.name == "stages") CHECK(gene.choices.size() == 1);
    if (gene.name == "hints") CHECK(gene.choices.size() == 2);
  }
}
