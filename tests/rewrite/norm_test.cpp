#include <doctest/doctest.h>

#include <algorithm>
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

/// A norm of batches or groups, and folds of what it makes.
struct Normed {
  Shape x{3, 4, 6, 7};
  std::int64_t groups = 2;  ///< 0: of batches
  bool affine = true, training = true;
  /// Of places: "mean", "sum", "adaptive", "lines", "quarters"; more: "all", "batch"; or "none".
  std::string fold = "mean";
  std::string again;  ///< one more reader of what the norm makes: "relu", "mean", "output"
  DType dtype = DType::f32;
  Shape layout{};

  ir::Graph graph() const {
    GraphBuilder g;
    const int y = g.input(x, dtype, layout);
    const std::int64_t channels = x[1];
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
      args.insert(args.end(),
                  {I("N", x[0]), I("C", channels), I("HxW", x[2] * x[3]), I("group", groups), F("eps", 0.25)});
      outs = {g.value(x, dtype, layout), g.value({x[0], groups}, dtype), g.value({x[0], groups}, dtype)};
    } else {
      args.push_back(V("running_mean", parameter("buffer", "m")));
      args.push_back(V("running_var", parameter("buffer", "v")));
      args.insert(args.end(), {B("training", training), F("momentum", 0.25), F("eps", 0.25)});
      outs.emplace_back(g.value(x, dtype));
      for (int i = 0; i < 4; ++i) outs.emplace_back(g.value({channels}, dtype));
    }
    const int normed = *outs[0];
    const std::string op = groups > 0 ? "native_group_norm" : "_native_batch_norm_legit_functional";
    g.graph.nodes.push_back({"aten." + op + ".default", std::move(args), outs});
    if (fold != "none") g.output(folded(g, fold, normed));
    if (again == "output") g.output(normed);
    if (again == "relu" || again == "mean")
      g.output(again == "mean" ? folded(g, "all", normed) : g.node("relu.default", {V("self", normed)}, x, dtype));
    // Running statistics, which are results.
    for (std::size_t i = 3; i < outs.size(); ++i) g.output(*outs[i]);
    return std::move(g.graph);
  }

 private:
  int folded(GraphBuilder& g, const std::string& how, int y) const {
    const std::int64_t n = x[0], c = x[1];
    const auto mean = [&](const char* op, std::vector<std::int64_t> dims, const Shape& left, bool keeps) {
      return g.node(op, {V("self", y), L("dim", std::move(dims)), B("keepdim", keeps), N("dtype")}, left, dtype);
    };
    if (how == "mean") return mean("mean.dim", {2, 3}, {n, c}, false);
    if (how == "sum") return mean("sum.dim_IntList", {2, 3}, {n, c}, false);
    if (how == "all") return mean("mean.dim", {1, 2, 3}, {n}, false);
    if (how == "batch") return mean("mean.dim", {0, 2, 3}, {1, c, 1, 1}, true);
    if (how == "lines") return mean("mean.dim", {3}, {n, c, x[2]}, false);
    if (how == "adaptive")
      return g.node("adaptive_avg_pool2d.default", {V("self", y), L("output_size", {1, 1})}, {n, c, 1, 1}, dtype);
    return g.node("adaptive_avg_pool2d.default", {V("self", y), L("output_size", {2, 2})}, {n, c, 2, 2}, dtype);
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

namespace {

/// A norm of groups over images with channels last, of which elements are wanted.
Normed by_channels() {
  return {.x = {2, 24, 3, 5}, .groups = 4, .fold = "none", .again = "relu", .layout = {360, 1, 120, 24}};
}
constexpr rewrite::Options at_once{.norms_by_channels = 720};

}  // namespace

TEST_CASE("a norm of groups over channels-last images is one of channels first") {
  Normed p = by_channels();
  SUBCASE("of two dims") {}
  SUBCASE("of one") {
    p.x = {2, 24, 15, 1};
    p.layout = {360, 1, 24, 24};
  }
  SUBCASE("whose batch is one") {
    p.x = {1, 24, 6, 5};
    p.layout = {1, 1, 120, 24};
  }
  const ir::Graph graph = p.graph();
  const Rewritten found = rewrite::rewrite(graph, at_once);
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "norm_by_channels");
  CHECK_FALSE(has(found.graph, "native_group_norm.default"));
  check_equal(graph, found.graph);
  ir::Graph wrong = found.graph;
  for (ir::GraphNode& node : wrong.nodes) {
    if (node.op == "aten.var_mean.correction") std::swap(node.outs[0], node.outs[1]);
  }
  check_different(graph, wrong);
}

TEST_CASE("a norm of groups by channels reads what a copy is made of, where it lies as the copy does") {
  Normed p = by_channels();
  ir::Graph graph = p.graph();
  const int x = graph.inputs[0].value;
  ir::Value like = graph.values[static_cast<std::size_t>(x)];
  bool alike = true;
  SUBCASE("so") {}
  SUBCASE("elsewhere") {
    alike = false;
    graph.values[static_cast<std::size_t>(x)].strides = {360, 15, 5, 1};
  }
  const int copy = static_cast<int>(graph.values.size());
  graph.values.push_back(like);
  graph.nodes[0].args[0] = V("input", copy);
  graph.nodes.insert(graph.nodes.begin(), {"aten.clone.default", {V("self", x), N("memory_format")}, {copy}});
  const Rewritten found = rewrite::rewrite(graph, at_once);
  REQUIRE(found.applied.size() == 1);
  CHECK(has(found.graph, "clone.default") == !alike);
}

TEST_CASE("of 16 bits it is computed in f32, and rounded once") {
  Normed p = by_channels();
  p.dtype = DType::bf16;
  const ir::Graph graph = p.graph();
  const Rewritten found = rewrite::rewrite(graph, at_once);
  REQUIRE(found.applied.size() == 1);
  for (const ir::GraphNode& node : found.graph.nodes) {
    if (node.op == "aten.relu.default") continue;
    const ir::Value& out = found.graph.values[static_cast<std::size_t>(*node.outs[0])];
    const bool result = *node.outs[0] == *graph.nodes[0].outs[0];
    CHECK(out.dtype == (result ? DType::bf16 : DType::f32));
    if (result) CHECK(out.strides == graph.values[static_cast<std::size_t>(*graph.nodes[0].outs[0])].strides);
  }
}

TEST_CASE("a norm of groups stays one kernel's") {
  Normed p = by_channels();
  rewrite::Options options = at_once;
  SUBCASE("where nobody asks") {
    options = {};
  }
  SUBCASE("of few elements") {
    options.norms_by_channels = 721;
  }
  SUBCASE("whose channels lie apart") {
    p.layout = {};
  }
  SUBCASE("without weights") {
    p.affine = false;
  }
  SUBCASE("of all channels") {
    p.groups = 1;
  }
  SUBCASE("of single channels") {
    p.groups = 24;
  }
  SUBCASE("with whole words of each group, where the image is small") {
    p.groups = 6;  // 4 channels of 4 bytes
  }
  SUBCASE("of channels that are no eights") {
    p.x = {2, 20, 3, 6};
    p.layout = {360, 1, 120, 20};
  }
  SUBCASE("in double precision") {
    p.dtype = DType::f64;
  }
  unchanged(p.graph(), options);
}
