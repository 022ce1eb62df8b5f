#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "codegen/graph_builder.h"
#include "proof.h"
#include "rewrite/rewrite.h"

// The rule that moves maxima in front of functions that never fall.

using namespace planish;
using namespace planish::codegen;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

/// Operators in a row behind an input of 2 x 3 x 8 x 12, and a max pool or a fold behind them.
struct Row {
  GraphBuilder g;
  Shape shape{2, 3, 8, 12};
  DType dtype = DType::f32;
  int last = -1;

  Row() { last = g.input(shape, dtype); }
  Row& then(const std::string& op, std::vector<ir::Arg> more = {}) {
    std::vector<ir::Arg> args{V("self", last)};
    args.insert(args.end(), more.begin(), more.end());
    last = g.node(op, std::move(args), shape, dtype);
    return *this;
  }
  int parameter(const Shape& of) {
    const int id = g.input(of, dtype);
    g.graph.inputs.back().kind = "param";
    return id;
  }
  Row& pool(std::vector<std::int64_t> window = {2, 3}) {
    Shape out{2, 3, (8 - window[0]) / window[0] + 1, (12 - window[1]) / window[1] + 1};
    last = g.node("max_pool2d.default",
                  {V("self", last), L("kernel_size", window), L("stride", window), L("padding", {0, 0}),
                   L("dilation", {1, 1}), B("ceil_mode", false)},
                  out, dtype);
    g.output(last);
    return *this;
  }
  Row& largest(const std::string& op, std::vector<std::int64_t> dims, bool keep) {
    Shape out;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool goes = std::ranges::find(dims, static_cast<std::int64_t>(d)) != dims.end();
      if (!goes || keep) out.push_back(goes ? 1 : shape[d]);
    }
    last = g.node(op, {V("self", last), L("dim", std::move(dims)), B("keepdim", keep)}, out, dtype);
    g.output(last);
    return *this;
  }
  /// The operators of what it becomes, in order; all that follow the fold compute what is left.
  std::vector<std::string> rewritten() const {
    const Rewritten found = rewrite::rewrite(g.graph);
    std::vector<std::string> ops;
    for (const ir::GraphNode& node : found.graph.nodes) ops.push_back(node.op.substr(5));
    CHECK(found.graph.outputs[0].value == last);
    const auto& out = found.graph.values[static_cast<std::size_t>(last)];
    for (const ir::GraphNode& node : found.graph.nodes)
      CHECK(found.graph.values[static_cast<std::size_t>(*node.outs[0])].shape == out.shape);
    return ops;
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a max pool comes before all that never falls") {
  Row row;
  row.then("tanh.default").then("mul.Tensor", {F("other", 0.5)});
  const int bias = row.parameter({3, 1, 1});
  row.then("add.Tensor", {V("other", bias), I("alpha", 1)}).then("leaky_relu.default", {F("negative_slope", 0.01)});
  row.then("hardtanh.default", {F("min_val", -1), F("max_val", 1)}).then("clamp.default", {N("min"), F("max", 0.5)});
  row.then("div.Tensor", {F("other", 3)}).then("sub.Tensor", {F("other", 2), I("alpha", 1)}).pool();
  CHECK(row.rewritten() == Names{"max_pool2d.default", "tanh.default", "mul.Tensor", "add.Tensor", "leaky_relu.default",
                                 "hardtanh.default", "clamp.default", "div.Tensor", "sub.Tensor"});
}

TEST_CASE("the largest and least over dims come before them too") {
  for (const std::string op : {"amax.default", "amin.default"}) {
    for (const bool keep : {false, true}) {
      Row row;
      row.then("sigmoid.default").then("relu.default").largest(op, {1}, keep);
      CHECK(row.rewritten() == Names{op, "sigmoid.default", "relu.default"});
    }
  }
}

TEST_CASE("a maximum stays behind what may fall, or makes NaN of infinities") {
  const auto stays = [](const std::string& op, std::vector<ir::Arg> more = {}) {
    CAPTURE(op);
    unchanged(Row().then(op, std::move(more)).pool().g.graph);
  };
  stays("gelu.default", {S("approximate", "none")});
  stays("neg.default");
  stays("abs.default");
  stays("sqrt.default");
  stays("softsign.default");
  stays("mul.Tensor", {F("other", -0.5)});
  stays("mul.Tensor", {F("other", 0)});
  stays("mul.Tensor", {F("other", std::numeric_limits<double>::infinity())});
  stays("div.Tensor", {F("other", -2)});
  stays("div.Tensor", {F("other", 2), S("rounding_mode", "floor")});
  stays("add.Tensor", {F("other", std::numeric_limits<double>::infinity()), I("alpha", 1)});
  stays("leaky_relu.default", {F("negative_slope", -0.1)});
  stays("leaky_relu.default", {F("negative_slope", 0)});
  stays("clamp.default", {N("min"), F("max", std::numeric_limits<double>::quiet_NaN())});
}

TEST_CASE("a summand has to be the model's own, and one for each window") {
  const auto with = [](const Shape& shape, bool own) {
    Row row;
    const int other = own ? row.parameter(shape) : row.g.input(shape, row.dtype);
    return row.then("add.Tensor", {V("other", other), I("alpha", 1)});
  };
  unchanged(with({3, 1, 1}, false).pool().g.graph);
  unchanged(with({3, 1, 12}, true).pool().g.graph);
  unchanged(with({12}, true).pool().g.graph);
  // Its dims are counted from the last, which a fold that drops dims changes.
  unchanged(with({3, 1, 1}, true).largest("amax.default", {2, 3}, false).g.graph);
  CHECK(with({3, 1, 1}, true).largest("amax.default", {2, 3}, true).rewritten() == Names{"amax.default", "add.Tensor"});
  unchanged(with({3, 1, 1}, true).largest("amax.default", {1}, true).g.graph);
}

TEST_CASE("a maximum stays where others read what is behind, and where it leaves as many") {
  Row read;
  read.then("tanh.default");
  read.g.output(read.last);
  unchanged(read.pool().g.graph);
  unchanged(Row().then("tanh.default").pool({1, 1}).g.graph);
  Row integers;
  integers.dtype = DType::i32;
  integers.last = integers.g.input(integers.shape, DType::i32);
  unchanged(integers.then("relu.default").pool().g.graph);
}
