#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/attention/attention.h"
#include "codegen/compose/compose.h"
#include "codegen/compose/staged.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"
#include "codegen/templates/genomes.h"
#include "devices.h"
#include "graph_builder.h"
#include "program/program.h"
#include "rewrite/rewrite.h"

// Regions of a rewritten graph with operators that PyTorch runs.

using namespace planish;
using namespace planish::codegen;

namespace {

/// tanh of a product with scaled columns, captured; and rewritten, with the weights scaled before the product.
struct Scaled {
  GraphBuilder captured;
  ir::Graph rewritten;
  std::size_t local = 0;
  int x = -1, w = -1, scale = -1, product = -1, scaled = -1, last = -1;

  explicit Scaled(const std::string& behind = "tanh.default") {
    x = captured.input({64, 32});
    w = captured.input({32, 48});
    scale = captured.input({48});
    product = captured.node("mm.default", {V("self", x), V("mat2", w)}, {64, 48});
    scaled = captured.node("mul.Tensor", {V("self", product), V("other", scale)}, {64, 48});
    last = behind.empty() ? scaled : captured.node(behind, {V("self", scaled)}, {64, 48});
    captured.output(last);
    local = captured.graph.values.size();
    GraphBuilder other{captured.graph};
    const int weights = other.node("mul.Tensor", {V("self", w), V("other", scale)}, {32, 48});
    auto& nodes = other.graph.nodes;
    std::rotate(nodes.begin(), nodes.end() - 1, nodes.end());
    std::erase_if(nodes, [&](const ir::GraphNode& node) { return node.outs[0] == scaled; });
    for (ir::GraphNode& node : nodes) {
      if (node.op != "aten.mm.default") continue;
      node.args[1] = V("mat2", weights);
      node.outs = {scaled};
    }
    rewritten = other.graph;
  }

  Result<Partition> cut() const {
    const auto base = partition(captured.graph);
    REQUIRE(base.has_value());
    return partition_rewritten(captured.graph, *base, rewritten, local);
  }
};

Device cpu_device() {
  Device device;
  device.arch = "x86-64-v3";
  return device;
}

std::vector<std::string> kinds(const program::Program& program) {
  std::vector<std::string> out;
  for (const program::Step& step : program.steps) {
    const auto* aten = std::get_if<program::Aten>(&step);
    out.push_back(aten != nullptr ? aten->op : std::holds_alternative<program::Launch>(step) ? "launch" : "other");
  }
  return out;
}

}  // namespace

TEST_CASE("an operator of PyTorch's reads what a kernel of the region makes, and gives what another reads") {
  const Scaled s;
  const auto cut = s.cut();
  REQUIRE(cut.has_value());
  // The product's results are captured ones: what lies behind them is a region as before.
  REQUIRE(cut->regions.size() == 2);
  const Region& region = cut->regions[0];
  CHECK(region.outputs == std::vector{s.scaled});
  CHECK(region.inputs == std::vector{s.x, s.w, s.scale});
  CHECK(region.nodes == std::vector{0, 1});
  REQUIRE(region.library.has_value());
  REQUIRE(region.before.size() == 1);
  CHECK_FALSE(region.before[0].library.has_value());
  CHECK(std::ranges::all_of(cut->order, [](const Item& item) { return item.is_region; }));

  const Device device = cpu_device();
  const auto emitted = emit(region, device, Genome{});
  REQUIRE(emitted.has_value());
  const auto program = region_program(s.captured.graph, region, *emitted, device);
  REQUIRE(program.has_value());
  CHECK(kinds(*program) == std::vector<std::string>{"launch", "aten.mm.default"});
  const auto& step = std::get<program::Aten>(program->steps[1]);
  const auto& weights = program->buffers[static_cast<std::size_t>(std::get<ir::ValueRef>(step.args[1].data).id)];
  CHECK(weights.role == program::Role::temp);
  CHECK(weights.dtype == "f32");
  CHECK(weights.shape == Shape{32, 48});
  // Eager's operators stay what it is judged and timed against.
  const auto eager = region_aten_program(s.captured.graph, region, device);
  REQUIRE(eager.has_value());
  CHECK(kinds(*eager) == std::vector<std::string>{"aten.mm.default", "aten.mul.Tensor"});
}

TEST_CASE("what a stage makes is packed behind it, what the region is given at any time") {
  const Scaled s;
  PartitionOptions options;
  options.limits.contractions = true;
  const auto base = partition(s.captured.graph, options);
  REQUIRE(base.has_value());
  const auto cut = partition_rewritten(s.captured.graph, *base, s.rewritten, s.local, options);
  REQUIRE(cut.has_value());
  const auto found = std::ranges::find_if(cut->regions, [](const Region& one) { return !one.before.empty(); });
  REQUIRE(found != cut->regions.end());
  REQUIRE(found->kernel.anchor == Anchor::contraction);
  const auto guesses = seeds(found->kernel, h200());
  const auto packed = std::ranges::find_if(guesses, [](const Genome& one) { return value_of(one, "direct", 0) == 0; });
  REQUIRE(packed != guesses.end());
  auto last = emit(found->kernel, h200(), *packed);
  REQUIRE(last.has_value());
  CHECK(last->packs);
  REQUIRE(last->after.size() >= 2);
  CHECK(last->after[0].packs);
  const auto whole = staged(*found, std::move(*last), h200());
  REQUIRE(whole.has_value());
  const auto packings = (whole->packs ? 1 : 0) + std::ranges::count_if(whole->after, &Emitted::packs);
  CHECK(packings == 1);
}

TEST_CASE("an operator of PyTorch's in the middle of a region, behind which a kernel is searched") {
  Scaled s;
  // The product is a value of the rewritten graph's own, too.
  GraphBuilder other{s.rewritten};
  const int made = other.value({64, 48});
  for (ir::GraphNode& node : other.graph.nodes) {
    if (node.op == "aten.mm.default") node.outs = {made};
    if (node.op == "aten.tanh.default") node.args[0] = V("self", made);
  }
  s.rewritten = other.graph;
  const auto cut = s.cut();
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 1);
  const Region& region = cut->regions[0];
  CHECK_FALSE(region.library.has_value());
  REQUIRE(region.before.size() == 2);
  CHECK(region.before[1].library.has_value());
  const Device device = cpu_device();
  const Genomes genomes(region.kernel, device);
  const auto emitted = emit(region, device, genomes.seeds().front());
  REQUIRE(emitted.has_value());
  const auto whole = compose(s.captured.graph, *cut, {*emitted}, device);
  REQUIRE(whole.has_value());
  CHECK(kinds(*whole) == std::vector<std::string>{"launch", "aten.mm.default", "launch"});
}

TEST_CASE("what PyTorch runs is part of a region's cost and key, and has no genes") {
  const Scaled s("");
  const auto cut = s.cut();
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 1);
  Region region = cut->regions[0];
  CHECK(cost(region).flops >= 2.0 * 64 * 32 * 48);
  CHECK(cost(region).bytes >= 4.0 * (64 * 32 + 3 * 32 * 48 + 64 * 48));
  const std::string key = canonical_key(region);
  Region kernels = region;
  kernels.library.reset();
  CHECK(canonical_key(kernels) != key);
  const auto refused = emit(region, cpu_device(), Genome{{"threads", 1}});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind.name() == "illegal_genome");
}

TEST_CASE("an operator of PyTorch's reads a part of an input where it lies") {
  GraphBuilder captured;
  const int x = captured.input({64, 96}), w = captured.input({96, 48});
  const int product = captured.node("mm.default", {V("self", x), V("mat2", w)}, {64, 48});
  const int last = captured.node("tanh.default", {V("self", product)}, {64, 48});
  captured.output(last);
  const std::size_t local = captured.graph.values.size();
  GraphBuilder other{captured.graph};
  other.graph.nodes.clear();
  std::vector<int> parts;
  for (const std::int64_t begin : {0, 32}) {
    const int rows = other.node(
        "slice.Tensor", {V("self", x), I("dim", 0), I("start", begin), I("end", begin + 32), I("step", 1)}, {32, 96});
    const int some =
        other.node("slice.Tensor", {V("self", rows), I("dim", 1), I("start", 0), I("end", 64), I("step", 1)}, {32, 64},
                   DType::f32, {96, 1});
    const int factor =
        other.node("slice.Tensor", {V("self", w), I("dim", 0), I("start", 0), I("end", 64), I("step", 1)}, {64, 48});
    parts.push_back(other.node("mm.default", {V("self", some), V("mat2", factor)}, {32, 48}));
  }
  const int whole = other.node("cat.default", {VS("tensors", parts), I("dim", 0)}, {64, 48});
  other.graph.nodes.push_back({"aten.tanh.default", {V("self", whole)}, {last}});
  const auto base = partition(captured.graph);
  REQUIRE(base.has_value());
  const auto cut = partition_rewritten(captured.graph, *base, other.graph, local);
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 1);
  const Region& region = cut->regions[0];
  CHECK(region.inputs == std::vector{x, w});
  CHECK(region.nodes == std::vector{0, 1});
  // What is read and written counts, and no view: of the factors two thirds, w twice, and the parts.
  CHECK(cost(region).bytes == 4.0 * (64 * 64 + 2 * 64 * 48 + 3 * 64 * 48));

  const Device device = cpu_device();
  const auto emitted = emit(region, device, seeds(region.kernel, device).front());
  REQUIRE(emitted.has_value());
  const auto program = region_program(captured.graph, region, *emitted, device);
  REQUIRE(program.has_value());
  const auto steps = kinds(*program);
  CHECK(std::ranges::count(steps, "aten.slice.Tensor") == 6);
  CHECK(std::ranges::count(steps, "aten.mm.default") == 2);
  CHECK(steps.back() == "launch");
  // As the view lies.
  CHECK(std::ranges::any_of(program->buffers, [](const program::Buffer& buffer) {
    return buffer.shape == Shape{32, 64} && buffer.strides == Shape{96, 1} && buffer.role == program::Role::temp;
  }));
}

TEST_CASE("what one kernel would give of both graphs is given by two") {
  GraphBuilder captured;
  const int x = captured.input({64, 96}), w = captured.input({96, 48});
  const int factor = captured.node("relu.default", {V("self", x)}, {64, 96});
  const int product = captured.node("mm.default", {V("self", factor), V("mat2", w)}, {64, 48});
  captured.output(product);
  const std::size_t local = captured.graph.values.size();
  GraphBuilder other{captured.graph};
  other.graph.nodes.pop_back();
  const int sums =
      other.node("sum.dim_IntList", {V("self", factor), L("dim", {1}), B("keepdim", true), N("dtype")}, {64, 1});
  const int some = other.node("mm.default", {V("self", factor), V("mat2", w)}, {64, 48});
  other.graph.nodes.push_back({"aten.add.Tensor", {V("self", some), V("other", sums), I("alpha", 1)}, {product}});
  const auto whole = partition(other.graph);
  REQUIRE(whole.has_value());
  REQUIRE(std::ranges::any_of(whole->regions, [](const Region& one) { return one.outputs.size() == 2; }));
  const auto base = partition(captured.graph);
  REQUIRE(base.has_value());
  const auto cut = partition_rewritten(captured.graph, *base, other.graph, local);
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 2);
  CHECK(cut->regions[0].outputs == std::vector{factor});
  CHECK(canonical_key(cut->regions[0]) == canonical_key(base->regions[0]));
  CHECK(cut->regions[1].outputs == std::vector{product});
  REQUIRE(cut->regions[1].before.size() == 2);
  CHECK(std::ranges::any_of(cut->regions[1].before, [&](const Region& one) {
    return one.outputs == std::vector{sums} && one.inputs == std::vector{x};
  }));
}

TEST_CASE("an operator that nothing describes does not read a rewritten value") {
  // What it computes would be part of no cost and no key.
  Scaled s("relu.default");
  GraphBuilder other{s.rewritten};
  for (ir::GraphNode& node : other.graph.nodes) {
    if (node.op == "aten.mm.default") node.op = "aten.mode.default";
  }
  s.rewritten = other.graph;
  const auto cut = s.cut();
  REQUIRE_FALSE(cut.has_value());
  CHECK(cut.error().kind.name() == "not_local");
}

TEST_CASE("a rewritten value does not lie between two regions") {
  // Two products read the same scaled weights.
  const Scaled s("");
  GraphBuilder captured{s.captured.graph};
  const int x = captured.input({16, 32});
  const int product = captured.node("mm.default", {V("self", x), V("mat2", s.w)}, {16, 48});
  const int scaled = captured.node("mul.Tensor", {V("self", product), V("other", s.scale)}, {16, 48});
  captured.output(scaled);
  GraphBuilder other{captured.graph};
  const std::size_t local = captured.graph.values.size();
  const int weights = other.value({32, 48});
  other.graph.nodes = {{"aten.mul.Tensor", {V("self", s.w), V("other", s.scale)}, {weights}},
                       {"aten.mm.default", {V("self", s.x), V("mat2", weights)}, {s.scaled}},
                       {"aten.mm.default", {V("self", x), V("mat2", weights)}, {scaled}}};
  const auto base = partition(captured.graph);
  REQUIRE(base.has_value());
  const auto cut = partition_rewritten(captured.graph, *base, other.graph, local);
  REQUIRE_FALSE(cut.has_value());
  CHECK(cut.error().kind.name() == "not_local");
}

TEST_CASE("attention with wide heads is two products of ours and a softmax between them, in one region") {
  GraphBuilder g;
  const Shape heads{2, 4, 384, 512};
  const int q = g.input(heads), k = g.input(heads), v = g.input(heads);
  const int y = g.node("scaled_dot_product_attention.default",
                       {V("query", q), V("key", k), V("value", v), N("attn_mask"), F("dropout_p", 0),
                        B("is_causal", true), N("scale"), B("enable_gqa", false)},
                       heads);
  g.output(y);
  PartitionOptions options;
  options.limits.contractions = true;
  const auto base = partition(g.graph, options);
  REQUIRE(base.has_value());
  CHECK(base->regions.empty());
  const auto rewritten = rewrite::rewrite(g.graph, {.library_products = false, .most_features = most_features});
  REQUIRE(rewritten.applied.size() == 1);
  const auto cut = partition_rewritten(g.graph, *base, rewritten.graph, rewritten.local, options);
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 1);
  const Region& region = cut->regions[0];
  CHECK(region.kernel.anchor == Anchor::contraction);
  REQUIRE(region.before.size() == 2);
  CHECK(region.before[0].kernel.anchor == Anchor::contraction);
  CHECK(region.before[1].kernel.anchor == Anchor::row);
  CHECK(region.nodes == std::vector{0});
  const auto emitted = emit(region, h200(), seeds(region.kernel, h200()).front());
  REQUIRE(emitted.has_value());
  const auto program = region_program(g.graph, region, *emitted, h200());
  REQUIRE(program.has_value());
  CHECK(std::ranges::all_of(kinds(*program), [](const std::string& kind) { return kind != "other"; }));
  CHECK(std::ranges::none_of(kinds(*program), [](const std::string& kind) { return kind.starts_with("aten"); }));
}

TEST_CASE(
    "of 16 bits it reads queries, keys and values as they lie, and queries in parts are kernels one after the other") {
  GraphBuilder g;
  const Shape heads{1, 1, 384, 512};
  const int q = g.input(heads, DType::bf16), k = g.input(heads, DType::bf16), v = g.input(heads, DType::bf16);
  g.output(g.node("scaled_dot_product_attention.default",
                  {V("query", q), V("key", k), V("value", v), N("attn_mask"), F("dropout_p", 0), B("is_causal", false),
                   N("scale"), B("enable_gqa", false)},
                  heads, DType::bf16));
  PartitionOptions options;
  options.limits.contractions = true;
  const auto base = partition(g.graph, options);
  REQUIRE(base.has_value());
  const auto rewritten = rewrite::rewrite(
      g.graph, {.library_products = false, .most_features = most_features, .scores_at_once = 384 * 192});
  const auto cut = partition_rewritten(g.graph, *base, rewritten.graph, rewritten.local, options);
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 1);
  const Region& region = cut->regions[0];
  const Kernel& searched = searched_kernel(region, h200());
  const auto emitted = emit(region, h200(), seeds(searched, h200()).front());
  REQUIRE(emitted.has_value());
  const auto program = region_program(g.graph, region, *emitted, h200());
  REQUIRE(program.has_value());
  // Twice scores, exponentials and a product with the values; then both parts beside each other. Nothing is packed.
  CHECK(program->steps.size() == 7);
  CHECK(std::ranges::none_of(kinds(*program), [](const std::string& kind) { return kind.starts_with("aten"); }));
}

namespace {

/// A transposed convolution with channels scaled behind it, a pool of 2 and what is behind that.
ir::Graph pooled(std::int64_t images) {
  GraphBuilder g;
  const auto parameter = [&](const Shape& shape) {
    const int id = g.input(shape);
    g.graph.inputs.back().kind = "param";
    return id;
  };
  const int x = g.input({images, 3, 16, 32, 32});
  const std::vector<std::int64_t> full{images, 16, 31, 63, 63}, less{images, 16, 15, 31, 31};
  int last = g.node("conv_transpose3d.input",
                    {V("input", x), V("weight", parameter({3, 16, 3, 3, 3})), V("bias", parameter({16})),
                     L("stride", {2, 2, 2}), L("padding", {1, 1, 1})},
                    full);
  last = g.node("mul.Tensor", {V("self", last), V("other", parameter({}))}, full);
  last = g.node("avg_pool3d.default", {V("self", last), L("kernel_size", {2, 2, 2}), L("stride", {2, 2, 2})}, less);
  last = g.node("add.Tensor", {V("self", last), V("other", parameter({16, 1, 1, 1})), I("alpha", 1)}, less);
  g.output(g.node("tanh.default", {V("self", last)}, less));
  return g.graph;
}

}  // namespace

TEST_CASE("what lies behind a pool that moved through a convolution is the convolution's epilogue") {
  const ir::Graph graph = pooled(32);
  FusionOptions options;
  options.limits.contractions = true;
  PartitionOptions cutting;
  cutting.limits = options.limits;
  auto apart = partition(graph, cutting);
  REQUIRE(apart.has_value());
  const Partition base = with_epilogues(graph, std::move(*apart), h200(), options);
  const auto rewritten = rewrite::rewrite(graph, {.library_products = false});
  REQUIRE(rewritten.applied.size() == 1);
  const auto cut = rewritten_with_epilogues(graph, base, rewritten.graph, rewritten.local, h200(), options);
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 1);
  const Region& region = cut->regions[0];
  CHECK(region.kernel.anchor == Anchor::contraction);
  CHECK(region.nodes == std::vector{0, 1, 2, 3, 4});
  // What is not finite beside the data; sums and signs of the weights, side by side.
  CHECK(region.before.size() == 3);
  CHECK_FALSE(region.library.has_value());
  const auto emitted = emit(region, h200(), seeds(region.kernel, h200()).front());
  REQUIRE(emitted.has_value());
  const auto program = region_program(graph, region, *emitted, h200());
  REQUIRE(program.has_value());
  CHECK(std::ranges::all_of(kinds(*program), [](const std::string& kind) { return kind == "launch"; }));
}

TEST_CASE("a rewritten kernel reads the statistics of a norm that both graphs have") {
  GraphBuilder g;
  const Shape full{8, 16, 64, 64}, half{8, 16, 32, 32}, quarter{8, 16, 16, 16};
  const int x = g.input(full), running = g.input({16}), variance = g.input({16});
  const int y = g.node("_native_batch_norm_legit_functional.default",
                       {V("input", x), N("weight"), N("bias"), V("running_mean", running), V("running_var", variance),
                        B("training", true), F("momentum", 0.1), F("eps", 1e-5)},
                       full);
  for (int other = 0; other < 4; ++other) g.graph.nodes.back().outs.emplace_back(g.value({16}));
  g.output(y + 3);
  g.output(y + 4);
  const auto average = [&](int of, const Shape& shape) {
    return g.node("avg_pool2d.default", {V("self", of), L("kernel_size", {2, 2}), L("stride", {2, 2})}, shape);
  };
  g.output(average(average(y, half), quarter));
  const auto base = partition(g.graph);
  REQUIRE(base.has_value());
  const auto rewritten = rewrite::rewrite(g.graph);
  REQUIRE(rewritten.applied.size() == 1);
  const auto cut = partition_rewritten(g.graph, *base, rewritten.graph, rewritten.local);
  REQUIRE(cut.has_value());
  const Region& last = cut->regions.back();
  CHECK(last.given == std::vector{y + 1, y + 2});
  CHECK(last.nodes == std::vector{0, 1, 2});
}

TEST_CASE("of several kernels the one with the most to do is searched, and a convolution that is not rounds nothing") {
  GraphBuilder g;
  const int x = g.input({8, 32, 128, 128}), w = g.input({64, 32, 3, 3});
  const std::vector<std::int64_t> shape{8, 64, 126, 126};
  const int y = g.node("conv2d.default",
                       {V("input", x), V("weight", w), N("bias"), L("stride", {1, 1}), L("padding", {0, 0}),
                        L("dilation", {1, 1}), I("groups", 1)},
                       shape);
  g.output(g.node("_softmax.default", {V("self", y), I("dim", -1), B("half_to_float", false)}, shape));
  PartitionOptions options;
  options.limits.contractions = true;
  const auto cut = partition(g.graph, options);
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 2);
  const Region& first = cut->regions[0];
  REQUIRE(first.kernel.anchor == Anchor::contraction);
  REQUIRE(seeds(first.kernel, h200()).front().at("passes") == 1);
  Region whole = cut->regions[1];
  whole.before = {first};
  whole.reads = whole.inputs;
  whole.inputs = first.inputs;
  const auto all_by = [&](const Device& device) {
    const Kernel& searched = searched_kernel(whole, device);
    auto emitted = emit(searched, device, seeds(searched, device).front());
    REQUIRE(emitted.has_value());
    const auto all = staged(whole, std::move(*emitted), device);
    REQUIRE(all.has_value());
    return all->source.find("lo.x[j] = low_part(") != std::string::npos;
  };
  Device device = h200();
  // Products cost so little that the softmax has more to do.
  device.tensor_rate = 1e6;
  REQUIRE(&searched_kernel(whole, device) == &whole.kernel);
  CHECK(all_by(device));
  device.tensor_rate = 1;
  REQUIRE(&searched_kernel(whole, device) == &whole.before[0].kernel);
  CHECK_FALSE(all_by(device));
}
