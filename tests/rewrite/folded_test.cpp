#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"
#include "rewrite/rewrite.h"

// Rules that move scales into weights, and pools before convolutions.

using namespace planish;
using namespace planish::codegen;
using rewrite::check_different;
using rewrite::check_equal;
using rewrite::has;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

/// A linear layer or convolution with scales and shifts behind it. What a test changes stands in the fields.
struct Scaled {
  std::string op = "conv2d.default";
  Shape x{1, 2, 512, 512}, w{4, 2, 1, 1}, out{1, 4, 512, 512};
  std::vector<std::int64_t> stride{1, 1}, padding{0, 0};
  std::int64_t groups = 1;
  DType dtype = DType::f32;
  bool bias = true;
  std::string weights = "param", statistics = "buffer", scales = "param";  ///< kinds of inputs
  std::string between;           ///< read by an output too: "made" is the product's value, "normed" the norm's
  bool statistics_read = false;  ///< the norm's other results
  Shape turned;                  ///< strides of what is made last

  GraphBuilder g;
  int last = -1, made = -1, normed = -1;

  int parameter(const Shape& shape, const std::string& kind) {
    const int id = g.input(shape, dtype);
    g.graph.inputs.back().kind = kind;
    return id;
  }
  Scaled& product() {
    const int input = g.input(x, dtype), weight = parameter(w, weights);
    std::vector<ir::Arg> args{V("input", input), V("weight", weight)};
    if (bias) {
      args.push_back(V("bias", parameter({channels()}, "param")));
    } else {
      args.push_back(N("bias"));
    }
    if (op.starts_with("conv")) {
      args.push_back(L("stride", stride));
      args.push_back(L("padding", padding));
      args.push_back(L("dilation", std::vector<std::int64_t>(w.size() - 2, 1)));
      args.push_back(I("groups", groups));
    }
    made = last = g.node(op, args, out, dtype);
    return *this;
  }
  std::int64_t channels() const { return op.starts_with("conv") ? out[out.size() == w.size() ? 1 : 0] : out.back(); }
  Scaled& norm(bool affine = true) {
    std::vector<ir::Arg> args{V("input", last)};
    for (const char* name : {"weight", "bias"}) args.push_back(affine ? V(name, parameter({out[1]}, scales)) : N(name));
    for (const char* name : {"running_mean", "running_var"}) args.push_back(V(name, parameter({out[1]}, statistics)));
    args.push_back(F("momentum", 0.1));
    args.push_back(F("eps", 0.0009765625));
    normed = last = g.node("_native_batch_norm_legit_no_training.default", std::move(args), out, dtype);
    for (int more = 0; more < 2; ++more) g.graph.nodes.back().outs.emplace_back(g.value({0}, dtype));
    if (statistics_read) g.output(last + 1);
    return *this;
  }
  Scaled& number(const std::string& name, double value, double alpha = 1) {
    std::vector<ir::Arg> args{V("self", last), F("other", value)};
    if (name[0] == 'a' || name[0] == 's') args.push_back(F("alpha", alpha));
    last = g.node(name + ".Tensor", std::move(args), out, dtype);
    return *this;
  }
  /// With a parameter of this shape, on the left where `turn`.
  Scaled& with(const std::string& name, const Shape& shape, bool turn = false) {
    const int other = parameter(shape, scales);
    std::vector<ir::Arg> args{V("self", turn ? other : last), V("other", turn ? last : other)};
    if (name[0] == 'a' || name[0] == 's') args.push_back(I("alpha", 1));
    last = g.node(name + ".Tensor", std::move(args), out, dtype, turned);
    return *this;
  }
  Scaled& then(const std::string& name) {
    last = g.node(name, {V("self", last)}, out, dtype);
    return *this;
  }
  ir::Graph graph() {
    g.output(last);
    if (between == "made") g.output(g.node("relu.default", {V("self", made)}, out, dtype));
    if (between == "normed") g.output(normed);
    return g.graph;
  }
};

void folds(const ir::Graph& graph, const std::string& product) {
  const Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "affine_into_weights");
  CHECK(found.applied[0].numeric == rewrite::Numeric::reassociation);
  CHECK(found.graph.nodes.back().op == "aten." + product);
  CHECK(found.graph.values.size() > found.local);
  check_equal(graph, found.graph, 1);
}

}  // namespace

TEST_CASE("scales and shifts of channels behind a convolution become part of its weights and bias") {
  SUBCASE("a batch norm, without a bias before it") {
    Scaled c;
    c.bias = false;
    folds(c.product().norm().graph(), "conv2d.default");
  }
  SUBCASE("a batch norm without weights, behind a bias") {
    Scaled c;
    folds(c.product().norm(false).graph(), "conv2d.default");
  }
  SUBCASE("all that there is, in turn") {
    Scaled c;
    c.product().number("add", 0.5).norm().with("mul", {4, 1, 1}, true).number("div", 4).with("sub", {1, 4, 1, 1});
    folds(c.number("mul", -1.5).with("add", {1}).with("mul", {}).number("sub", 2).graph(), "conv2d.default");
  }
  SUBCASE("numbers and one scale for all") {
    Scaled c;
    c.bias = false;
    folds(c.product().number("mul", 0.75).with("mul", {1}).graph(), "conv2d.default");
  }
  SUBCASE("a number alone") {
    Scaled c;
    c.bias = false;
    folds(c.product().number("div", 8).graph(), "conv2d.default");
  }
  SUBCASE("one shift for all is a vector as a bias") {
    for (const char* op : {"add", "sub"}) {
      Scaled c;
      c.bias = false;
      folds(c.product().with(op, {1, 1}).number("mul", 2).graph(), "conv2d.default");
    }
  }
  SUBCASE("groups, taps and a stride") {
    Scaled c;
    c.x = {2, 4, 514, 259};
    c.w = {8, 2, 3, 2};
    c.out = {2, 8, 256, 258};
    c.groups = 2;
    c.stride = {2, 1};
    folds(c.product().norm().graph(), "conv2d.default");
  }
  SUBCASE("transposed") {
    Scaled c;
    c.op = "conv_transpose2d.input";
    c.x = {1, 3, 256, 256};
    c.w = {3, 4, 2, 2};
    c.stride = {2, 2};
    folds(c.product().norm().with("mul", {4, 1, 1}).graph(), "conv_transpose2d.input");
  }
  SUBCASE("what reads it is another convolution, or a product behind a view") {
    Scaled c;
    c.product().norm();
    const int w = c.parameter({1, 4, 1, 1}, "param"), normed = c.last;
    const int next = c.g.node("conv2d.default",
                              {V("input", normed), V("weight", w), N("bias"), L("stride", {1, 1}), L("padding", {0, 0}),
                               L("dilation", {1, 1}), I("groups", 1)},
                              {1, 1, 512, 512});
    c.g.output(next);
    const Rewritten found = rewrite::rewrite(c.g.graph);
    CHECK(found.applied.size() == 1);
    check_equal(c.g.graph, found.graph, 1);
    Scaled d;
    d.product().norm();
    const int rows = d.g.node("view.default", {V("self", d.last), L("size", {2048, 512})}, {2048, 512});
    const int v = d.g.input({512, 2});
    d.g.output(d.g.node("mm.default", {V("self", rows), V("mat2", v)}, {2048, 2}));
    CHECK(rewrite::rewrite(d.g.graph).applied.size() == 1);
  }
}

TEST_CASE("scales and shifts behind a linear layer become part of its weights and bias") {
  Scaled c;
  c.op = "linear.default";
  SUBCASE("a batch norm") {
    c.x = {8192, 3};
    c.w = {128, 3};
    c.out = {8192, 128};
    folds(c.product().norm().number("mul", 0.5).graph(), "linear.default");
  }
  SUBCASE("a parameter along the last of three dims") {
    c.x = {64, 128, 3};
    c.w = {128, 3};
    c.out = {64, 128, 128};
    folds(c.product().with("mul", {128}).with("add", {1, 128}).graph(), "linear.default");
  }
}

TEST_CASE("the proof tells a wrong shift from a right one") {
  Scaled c;
  const ir::Graph graph = c.product().norm().graph();
  Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() == 1);
  // The bias as it was before the norm.
  for (ir::Arg& arg : found.graph.nodes.back().args) {
    if (arg.name == "bias") arg.data = graph.nodes.front().arg("bias")->data;
  }
  const auto inputs = rewrite::random_inputs(graph, 0);
  const auto wanted = rewrite::evaluate(graph, inputs, c.last);
  REQUIRE(wanted.has_value());
  CHECK(wanted != rewrite::evaluate(found.graph, inputs, c.last));
}

TEST_CASE("a scale stays where a condition is missing") {
  Scaled c;
  SUBCASE("a kernel reads the last value, which does it for nothing") {
    c.product().norm().then("relu.default");
  }
  SUBCASE("the statistics are data of the caller's") {
    c.statistics = "user";
    c.product().norm();
  }
  SUBCASE("a scale is") {
    c.scales = "user";
    c.product().with("mul", {4, 1, 1});
  }
  SUBCASE("the weights are") {
    c.weights = "user";
    c.product().norm();
  }
  SUBCASE("something else reads the product") {
    c.between = "made";
    c.product().norm();
  }
  SUBCASE("something else reads what lies in between") {
    c.between = "normed";
    c.product().norm().number("mul", 2);
    const Rewritten found = rewrite::rewrite(c.graph());
    REQUIRE(found.applied.size() == 1);  // up to the norm, which is a result
    CHECK(found.applied[0].value == c.normed);
    return;
  }
  SUBCASE("the norm's other results are read") {
    c.statistics_read = true;
    c.product().norm();
  }
  SUBCASE("there are few results") {
    c.x = {1, 2, 512, 511};
    c.out = {1, 4, 512, 511};
    c.product().norm();
  }
  SUBCASE("there are many weights") {
    c.op = "linear.default";
    c.x = {1024, 257};
    c.w = {1024, 257};
    c.out = {1024, 1024};
    c.product().norm();
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    c.dtype = DType::bf16;
    c.product().norm();
  }
  SUBCASE("a summand is scaled") {
    c.product().number("add", 1, 2);
  }
  SUBCASE("it is divided by zero") {
    c.product().number("div", 0);
  }
  SUBCASE("a factor is no number") {
    c.product().number("mul", std::numeric_limits<double>::infinity());
  }
  SUBCASE("it is divided by a parameter") {
    c.product().with("div", {4, 1, 1});
  }
  SUBCASE("it is taken from a parameter") {
    c.product().with("sub", {4, 1, 1}, true);
  }
  SUBCASE("a scale is along another dim") {
    c.product().with("mul", {512});
  }
  SUBCASE("a number is the only shift") {
    c.bias = false;
    c.product().number("add", 1);
  }
  SUBCASE("the results lie otherwise than the product's") {
    c.turned = {1 << 20, 1, 2048, 4};
    c.product().with("mul", {4, 1, 1});
  }
  SUBCASE("groups of a transposed convolution") {
    c.op = "conv_transpose2d.input";
    c.groups = 2;
    c.x = {1, 4, 512, 512};
    c.w = {4, 2, 1, 1};
    c.product().norm();
  }
  SUBCASE("there are no images, so that another dim counts the channels") {
    c.x = {2, 4, 512, 512};
    c.w = {4, 4, 1, 1, 1};
    c.out = {4, 4, 512, 512};
    c.op = "conv3d.default";
    c.stride = {1, 1, 1};
    c.padding = {0, 0, 0};
    c.product().norm();
  }
  SUBCASE("the norm's channels are not the product's") {
    c.op = "linear.default";
    c.x = {64, 128, 3};
    c.w = {128, 3};
    c.out = {64, 128, 128};
    c.product().norm();
  }
  unchanged(c.graph());
}

TEST_CASE("a scale stays where kernels of ours compute products") {
  Scaled c;
  const ir::Graph graph = c.product().norm().graph();
  CHECK(rewrite::rewrite(graph, {.library_products = false}).applied.empty());
}

namespace {

/// A convolution with windows of one element and an average pool of it. What a test changes stands in the fields.
struct Pooled {
  Shape x{2, 3, 8, 6}, w{4, 3, 1, 1}, out{2, 4, 8, 6}, pooled{2, 4, 4, 3};
  std::vector<std::int64_t> stride{1, 1}, padding{0, 0}, size{2, 2}, step{2, 2}, around{0, 0};
  std::int64_t groups = 1;
  bool bias = true, ceil = false, counted = true, parameter = true, read_again = false;
  std::optional<std::int64_t> divisor;
  DType dtype = DType::f32;
  Shape layout;  ///< strides of the input
  std::string between, pool = "avg_pool";

  ir::Graph graph() const {
    GraphBuilder g;
    const std::string dims = std::to_string(x.size() - 2) + "d.default";
    const int input = g.input(x, dtype, layout), weight = g.input(w, dtype);
    if (parameter) g.graph.inputs.back().kind = "param";
    std::vector<ir::Arg> args{V("input", input), V("weight", weight)};
    args.push_back(bias ? V("bias", g.input({out[1]}, dtype)) : N("bias"));
    args.insert(args.end(), {L("stride", stride), L("padding", padding),
                             L("dilation", std::vector<std::int64_t>(x.size() - 2, 1)), I("groups", groups)});
    const int y = g.node("conv" + dims, args, out, dtype);
    const int last = between.empty() ? y : g.node(between, {V("self", y)}, out, dtype);
    std::vector<ir::Arg> window{V("self", last),      L("kernel_size", size), L("stride", step),
                                L("padding", around), B("ceil_mode", ceil),   B("count_include_pad", counted)};
    if (divisor) window.push_back(I("divisor_override", *divisor));
    g.output(g.node(pool + dims, window, pooled, dtype));
    if (read_again) g.output(g.node("relu.default", {V("self", y)}, out, dtype));
    return g.graph;
  }
};

}  // namespace

TEST_CASE("an average pool behind a convolution without taps comes before it") {
  std::vector<Pooled> all(6);
  all[1].bias = false;
  all[1].around = {1, 1};
  all[1].pooled = {2, 4, 5, 4};
  all[2] = all[1];
  all[2].counted = false;
  all[2].pooled = {2, 4, 5, 4};
  all[3].groups = 2;
  all[3].x = {2, 6, 8, 6};
  all[4].bias = false;
  all[4].divisor = 3;
  all[5].x = {1, 3, 4, 4, 4};
  all[5].w = {2, 3, 1, 1, 1};
  all[5].out = {1, 2, 4, 4, 4};
  all[5].pooled = {1, 2, 2, 2, 3};
  all[5].size = {2, 2, 2};
  all[5].step = {2, 2, 1};
  all[5].stride = {1, 1, 1};
  all[5].padding = all[5].around = {0, 0, 0};
  for (const Pooled& one : all) {
    const ir::Graph graph = one.graph();
    const Rewritten found = rewrite::rewrite(graph);
    REQUIRE(found.applied.size() == 1);
    CHECK(found.applied[0].rule == "pool_before_convolution");
    CHECK(found.applied[0].numeric == rewrite::Numeric::reassociation);
    CHECK(found.graph.nodes.back().op.starts_with("aten.conv"));
    check_equal(graph, found.graph);
    // In front of a kernel of ours it pays as well.
    CHECK(rewrite::rewrite(graph, {.library_products = false}).applied.size() == 1);
  }
}

TEST_CASE("the proof tells an average that a bias may not follow") {
  // With padding the average of a constant is less than it at the border.
  Pooled one;
  one.bias = false;
  one.around = {1, 1};
  one.pooled = {2, 4, 5, 4};
  Pooled biased = one;
  biased.bias = true;
  Rewritten found = rewrite::rewrite(one.graph());
  REQUIRE(found.applied.size() == 1);
  const ir::Graph graph = biased.graph();
  unchanged(graph);
  // What the rule would have made of it: the same with the bias behind the pool.
  ir::Graph wrong = graph;
  std::swap(wrong.nodes[0], wrong.nodes[1]);
  const int between = *graph.nodes[0].outs[0], last = *graph.nodes[1].outs[0];
  wrong.values.push_back(wrong.values[static_cast<std::size_t>(last)]);
  wrong.values.back().shape[1] = 3;
  const int first = static_cast<int>(wrong.values.size()) - 1;
  CHECK(between != last);
  for (ir::Arg& arg : wrong.nodes[0].args) {
    if (arg.name == "self") arg.data = ir::ValueRef{0};
  }
  for (ir::Arg& arg : wrong.nodes[1].args) {
    if (arg.name == "input") arg.data = ir::ValueRef{first};
  }
  wrong.nodes[0].outs = {first};
  wrong.nodes[1].outs = {last};
  const auto inputs = rewrite::random_inputs(graph, 0);
  const auto wanted = rewrite::evaluate(graph, inputs, last);
  REQUIRE(wanted.has_value());
  CHECK(wanted != rewrite::evaluate(wrong, inputs, last));
}

TEST_CASE("a pool behind a convolution that has taps, or adds places, is another rule's") {
  Pooled one;
  SUBCASE("taps") {
    one.w = {4, 3, 3, 1};
    one.padding = {1, 0};
  }
  SUBCASE("places") {
    one.x = {2, 3, 6, 6};
    one.padding = {1, 0};
  }
  const Rewritten found = rewrite::rewrite(one.graph());
  REQUIRE(found.applied.size() == 1);
  CHECK(found.applied[0].rule == "pool_through_convolution");
}

TEST_CASE("a pool stays where a condition is missing") {
  Pooled one;
  SUBCASE("the convolution skips elements") {
    one.x = {2, 3, 16, 6};
    one.stride = {2, 1};
  }
  SUBCASE("something else reads the convolution") {
    one.read_again = true;
  }
  SUBCASE("something lies in between") {
    one.between = "relu.default";
  }
  SUBCASE("nearly as many places are left") {
    one.size = {3, 3};
    one.step = {1, 1};
    one.pooled = {2, 4, 6, 5};
  }
  SUBCASE("the bias would not be averaged with padding") {
    one.around = {1, 1};
    one.pooled = {2, 4, 5, 4};
  }
  SUBCASE("windows over the end may count otherwise") {
    one.ceil = true;
  }
  SUBCASE("another divisor would scale the bias") {
    one.divisor = 3;
  }
  SUBCASE("the weights are data of the caller's") {
    one.parameter = false;
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    one.dtype = DType::bf16;
  }
  SUBCASE("channels lie together") {
    one.layout = {144, 1, 18, 3};
  }
  SUBCASE("it is a maximum") {
    one.pool = "max_pool";
  }
  unchanged(one.graph());
}

namespace {

/// Two products, one of the other. What a test changes stands in the fields.
struct Chain {
  Shape rows{8, 8};
  std::int64_t depth = 3, between = 64, columns = 2;
  std::string first = "linear.default", second = "linear.default", own = "param", bias_of = "param", middle;
  bool bias = true, vector = false, read_again = false;
  DType dtype = DType::f32;
  std::size_t rank = 2;  ///< of the first's weights

  int product(GraphBuilder& g, const std::string& op, int x, Shape w, const Shape& full,
              const std::string& kind) const {
    const bool linear = op[0] == 'l';
    if (linear) std::swap(w[0], w[1]);
    if (vector && kind == own && w.size() == 2 && op != first) w = {between};
    const int weight = g.input(w, dtype);
    g.graph.inputs.back().kind = kind;
    if (!linear)
      return g.node(op, {V("self", x), V(op[1] == 'v' ? "vec" : op[1] == 'm' ? "mat2" : "other", weight)}, full, dtype);
    if (!bias) return g.node(op, {V("input", x), V("weight", weight), N("bias")}, full, dtype);
    const int b = g.input({full.back()}, dtype);
    g.graph.inputs.back().kind = bias_of;
    return g.node(op, {V("input", x), V("weight", weight), V("bias", b)}, full, dtype);
  }
  ir::Graph graph() const {
    GraphBuilder g;
    Shape full = rows;
    full.push_back(depth);
    const int x = g.input(full, dtype);
    full.back() = between;
    Shape w{depth, between};
    if (rank == 3) w.insert(w.begin(), rows[0]);
    const int made = product(g, first, x, w, full, "user");
    const int last = middle.empty() ? made : g.node(middle, {V("self", made)}, full, dtype);
    Shape out = full;
    out.back() = columns;
    if (vector) out.pop_back();
    g.output(product(g, second, last, {between, columns}, out, own));
    if (read_again) g.output(g.node("relu.default", {V("self", made)}, full, dtype));
    return g.graph;
  }
};

}  // namespace

TEST_CASE("a product of a product is one with a small matrix") {
  std::vector<Chain> all(6);
  all[1].first = "matmul.default";
  all[2].second = "matmul.default";
  all[3].first = all[3].second = "mm.default";
  all[3].rows = {64};
  all[3].columns = 1;
  all[4].second = "matmul.default";
  all[4].vector = true;
  all[4].columns = 1;
  all[5].rows = {70};
  all[5].first = "mm.default";
  all[5].second = "mv.default";
  all[5].vector = true;
  all[5].columns = 1;
  for (const Chain& one : all) {
    const ir::Graph graph = one.graph();
    const Rewritten found = rewrite::rewrite(graph);
    REQUIRE(found.applied.size() == 1);
    CHECK(found.applied[0].rule == "product_through_product");
    CHECK(found.applied[0].numeric == rewrite::Numeric::reassociation);
    for (const char* op : {"linear.default", "mm.default", "matmul.default", "mv.default"})
      CHECK_FALSE(has(found.graph, op));
    check_equal(graph, found.graph);
  }
}

TEST_CASE("the proof tells a chain without the first bias") {
  const ir::Graph graph = Chain().graph();
  Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() == 1);
  const int bias = std::get<ir::ValueRef>(graph.nodes[0].arg("bias")->data).id;
  bool changed = false;
  for (ir::GraphNode& node : found.graph.nodes) {
    for (ir::Arg& arg : node.args) {
      const auto* ref = std::get_if<ir::ValueRef>(&arg.data);
      if (ref == nullptr || ref->id != bias) continue;
      arg.data = 0.0;
      changed = true;
    }
  }
  CHECK(changed);
  check_different(graph, found.graph);
}

TEST_CASE("a product of a product stays where a condition is missing") {
  Chain c;
  SUBCASE("the last matrix is data of the caller's") {
    c.own = "user";
  }
  SUBCASE("the first bias is") {
    c.bias_of = "user";
  }
  SUBCASE("something else reads the first product") {
    c.read_again = true;
  }
  SUBCASE("something lies in between") {
    c.middle = "relu.default";
  }
  SUBCASE("there are few rows") {
    c.rows = {9, 7};
  }
  SUBCASE("little is saved") {
    c.between = 63;
  }
  SUBCASE("there are many columns") {
    c.columns = 9;
    c.between = 9 * 32;
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    c.dtype = DType::bf16;
  }
  SUBCASE("they have more than 32") {
    c.dtype = DType::f64;
  }
  SUBCASE("the first is of two batches") {
    c.first = "matmul.default";
    c.rank = 3;
  }
  unchanged(c.graph());
}
