#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"
#include "rewrite/rewrite.h"

// Rules that fold what a norm makes of its data without making it.

using namespace planish;
using namespace planish::codegen;
using rewrite::check_different;
using rewrite::check_equal;
using rewrite::has;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

/// A convolution, transposed or not, or data as they are; a norm of batches or groups; and folds of what it makes.
struct Normed {
  Shape x{3, 4, 6, 7};
  std::int64_t groups = 2;  ///< 0: of batches
  bool affine = true, training = true, transposed = false;
  std::string fold = "mean";           ///< "adaptive", "mean", "all" (channels too), "batch", "pool", "sum", "max"
  std::string again;                   ///< one more reader of what the norm makes: "relu", "mean", "output"
  std::vector<std::string> between{};  ///< behind the data: "conv" and operators
  DType dtype = DType::f32;
  std::vector<std::int64_t> window{2, 2};
  Shape layout{};

  ir::Graph graph() const {
    GraphBuilder g;
    int y = g.input(x, dtype, layout);
    Shape shape = x;
    for (const std::string& op : between) y = operation(g, op, y, shape);
    const std::int64_t channels = shape[1];
    std::vector<ir::Arg> args{V("input", y)};
    const auto parameter = [&](const char* kind, const char* name) {
      const int id = g.input({channels}, dtype);
      g.graph.inputs.back().kind = kind;
      g.graph.inputs.back().name = name + std::to_string(id);
      return id;
    };
    args.push_back(affine ? V("weight", parameter("param", "w")) : N("weight"));
    args.push_back(affine ? V("bias", parameter("param", "b")) : N("bias"));
    std::vector<std::optional<int>> outs;
    if (groups > 0) {
      args.insert(args.end(), {I("N", shape[0]), I("C", channels), I("HxW", shape[2] * shape[3]), I("group", groups),
                               F("eps", 0.25)});
      outs = {g.value(shape, dtype), g.value({shape[0], groups}, dtype), g.value({shape[0], groups}, dtype)};
    } else {
      args.push_back(V("running_mean", parameter("buffer", "m")));
      args.push_back(V("running_var", parameter("buffer", "v")));
      args.insert(args.end(), {B("training", training), F("momentum", 0.25), F("eps", 0.25)});
      outs.emplace_back(g.value(shape, dtype));
      for (int i = 0; i < 4; ++i) outs.emplace_back(g.value({channels}, dtype));
    }
    const int normed = *outs[0];
    const std::string op = groups > 0 ? "native_group_norm" : "_native_batch_norm_legit_functional";
    g.graph.nodes.push_back({"aten." + op + ".default", std::move(args), outs});
    g.output(folded(g, fold, normed, shape));
    if (again == "output") g.output(normed);
    if (again == "relu" || again == "mean")
      g.output(again == "mean" ? folded(g, "all", normed, shape)
                               : g.node("relu.default", {V("self", normed)}, shape, dtype));
    // Running statistics, which are results.
    for (std::size_t i = 3; i < outs.size(); ++i) g.output(*outs[i]);
    return std::move(g.graph);
  }

 private:
  int operation(GraphBuilder& g, const std::string& op, int y, Shape& shape) const {
    if (op != "conv") return g.node(op + ".default", {V("self", y)}, shape, dtype);
    const std::int64_t channels = 6;
    const Shape taps = transposed ? Shape{shape[1], channels, 3, 3} : Shape{channels, shape[1], 3, 3};
    const int w = g.input(taps, dtype);
    g.graph.inputs.back().kind = "param";
    g.graph.inputs.back().name = "taps";
    std::vector<ir::Arg> args{V("input", y), V("weight", w), N("bias")};
    const std::int64_t s = transposed ? 2 : 1;
    args.insert(args.end(), {L("stride", {s, s}), L("padding", {1, 1})});
    if (transposed) args.push_back(L("output_padding", {1, 1}));
    args.insert(args.end(), {I("groups", 1), L("dilation", {1, 1})});
    shape = {shape[0], channels, s * shape[2], s * shape[3]};
    return g.node(transposed ? "conv_transpose2d.input" : "conv2d.default", args, shape, dtype);
  }
  int folded(GraphBuilder& g, const std::string& how, int y, const Shape& shape) const {
    const std::int64_t n = shape[0], c = shape[1];
    const auto mean = [&](const char* op, std::vector<std::int64_t> dims, const Shape& left, bool keeps) {
      return g.node(op, {V("self", y), L("dim", std::move(dims)), B("keepdim", keeps), N("dtype")}, left, dtype);
    };
    if (how == "mean") return mean("mean.dim", {2, 3}, {n, c}, false);
    if (how == "sum") return mean("sum.dim_IntList", {2, 3}, {n, c}, false);
    if (how == "all") return mean("mean.dim", {1, 2, 3}, {n}, false);
    if (how == "batch") return mean("mean.dim", {0, 2, 3}, {1, c, 1, 1}, true);
    if (how == "lines") return mean("mean.dim", {3}, {n, c, shape[2]}, false);
    if (how == "adaptive")
      return g.node("adaptive_avg_pool2d.default", {V("self", y), L("output_size", {1, 1})}, {n, c, 1, 1}, dtype);
    if (how == "quarters")
      return g.node("adaptive_avg_pool2d.default", {V("self", y), L("output_size", {2, 2})}, {n, c, 2, 2}, dtype);
    return g.node(
        (how == "pool" ? "avg_pool2d" : "max_pool2d") + std::string(".default"),
        {V("self", y), L("kernel_size", window), L("stride", window), L("padding", {0, 0}), B("ceil_mode", false)},
        {n, c, shape[2] / window[0], shape[3] / window[1]}, dtype);
  }
};

}  // namespace

TEST_CASE("means of planes behind a norm follow from the moments of its data's planes") {
  Normed p;
  SUBCASE("of groups") {}
  SUBCASE("of groups of one channel") {
    p.groups = 4;
  }
  SUBCASE("of all channels at once, without weights") {
    p.groups = 1;
    p.affine = false;
  }
  SUBCASE("as a pool") {
    p.fold = "adaptive";
  }
  SUBCASE("with the channels") {
    p.fold = "all";
  }
  SUBCASE("two of them") {
    p.again = "mean";
  }
  SUBCASE("of batches, whose running statistics move") {
    p.groups = 0;
    SUBCASE("") {}
    SUBCASE("as a pool") {
      p.fold = "adaptive";
    }
    SUBCASE("with the images") {
      p.fold = "batch";
    }
    SUBCASE("in double precision") {
      p.dtype = DType::f64;
    }
  }
  const ir::Graph graph = p.graph();
  const Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "mean_behind_norm");
  CHECK(std::ranges::count(found.graph.nodes, "aten.var_mean.correction", &ir::GraphNode::op) == 1);
  CHECK_FALSE(
      has(found.graph, p.groups > 0 ? "native_group_norm.default" : "_native_batch_norm_legit_functional.default"));
  CHECK_FALSE(has(found.graph, "adaptive_avg_pool2d.default"));
  check_equal(graph, found.graph);
  // Where a channel has one mean and variance, what it is normed to has its bias as the mean, whatever they are.
  if (p.fold == "batch" || p.groups == 4) return;
  ir::Graph wrong = found.graph;
  for (ir::GraphNode& node : wrong.nodes) {
    if (node.op == "aten.var_mean.correction") std::swap(node.outs[0], node.outs[1]);
  }
  check_different(graph, wrong);
}

TEST_CASE("means stay behind a norm where a condition is missing") {
  Normed p;
  SUBCASE("another reads its elements") {
    p.again = "relu";
  }
  SUBCASE("they are a result") {
    p.again = "output";
  }
  SUBCASE("it is a sum") {
    p.fold = "sum";
  }
  SUBCASE("of lines") {
    p.fold = "lines";
  }
  SUBCASE("of parts of planes") {
    p.fold = "quarters";
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    p.dtype = DType::bf16;
  }
  SUBCASE("the data lie otherwise") {
    p.layout = {168, 1, 28, 4};
  }
  SUBCASE("its statistics are given") {
    p.groups = 0;
    p.training = false;
  }
  unchanged(p.graph());
}

TEST_CASE("an average pool behind a norm comes before it, and goes through the convolution") {
  Normed p;
  p.fold = "pool";
  p.between = {"conv"};
  SUBCASE("of groups") {}
  SUBCASE("of batches") {
    p.groups = 0;
  }
  SUBCASE("without weights, behind a transposed one") {
    p.affine = false;
    p.transposed = true;
  }
  SUBCASE("of batches, behind a transposed one") {
    p.groups = 0;
    p.transposed = true;
    p.window = {4, 2};
  }
  const ir::Graph graph = p.graph();
  const Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "pool_behind_norm");
  CHECK(std::ranges::count_if(found.graph.nodes,
                              [](const ir::GraphNode& n) { return n.op.starts_with("aten.conv"); }) == 2);
  check_equal(graph, found.graph);
}

TEST_CASE("an average pool stays behind a norm where a condition is missing") {
  Normed p;
  p.fold = "pool";
  p.between = {"conv"};
  SUBCASE("what lies between is not linear") {
    p.between.push_back("relu");
  }
  SUBCASE("there is no convolution") {
    p.between.clear();
  }
  SUBCASE("another reads its elements") {
    p.again = "relu";
  }
  SUBCASE("it is a maximum") {
    p.fold = "max";
  }
  SUBCASE("its statistics are of 16 bits") {
    p.dtype = DType::f16;
  }
  SUBCASE("little is left out") {
    p.window = {1, 1};
  }
  unchanged(p.graph());
}
