#include "rewrite/rewrite.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"

using namespace planish;
using namespace planish::codegen;
using rewrite::check_equal;
using rewrite::has;
using rewrite::random_inputs;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

struct Sum {
  GraphBuilder g;
  int x = -1, w = -1, bias = -1, product = -1, last = -1;

  explicit Sum(const Shape& rows = {16}, std::int64_t depth = 5, std::int64_t columns = 17, DType dtype = DType::f32) {
    Shape full = rows;
    full.push_back(depth);
    x = g.input(full, dtype);
    w = g.input({columns, depth}, dtype);
    bias = g.input({columns}, dtype);
    full.back() = columns;
    product = last = g.node("linear.default", {V("input", x), V("weight", w), V("bias", bias)}, full, dtype);
  }
  const ir::Value& of(int id) const { return g.graph.values[static_cast<std::size_t>(id)]; }
  void scalar(const std::string& op, double other) {
    std::vector<ir::Arg> args{V("self", last), F("other", other)};
    if (op == "add.Tensor" || op == "sub.Tensor") args.push_back(I("alpha", 1));
    last = g.node(op, std::move(args), of(last).shape, of(last).dtype);
  }
  void fold(const std::string& op, std::int64_t dim, bool keepdim) {
    Shape shape = of(last).shape;
    const auto at = static_cast<std::size_t>(dim < 0 ? dim + std::ssize(shape) : dim);
    if (keepdim) {
      shape[at] = 1;
    } else {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
    }
    last = g.node(op, {V("self", last), L("dim", {dim}), B("keepdim", keepdim), N("dtype")}, shape, of(last).dtype);
    g.output(last);
  }
};

}  // namespace

TEST_CASE("a sum over a product's columns is a product with a vector, with what lies in between") {
  for (const bool keepdim : {false, true}) {
    for (const char* op : {"sum.dim_IntList", "mean.dim"}) {
      Sum s({4, 4});
      s.scalar("div.Tensor", 2.0);
      s.scalar("add.Tensor", 0.375);
      s.scalar("mul.Tensor", -1.5);
      s.scalar("sub.Tensor", 3.0);
      s.fold(op, -1, keepdim);
      const Rewritten found = rewrite::rewrite(s.g.graph);
      REQUIRE(found.applied.size() == 1);
      CHECK(found.applied[0].rule == "sum_through_product");
      CHECK(found.applied[0].numeric == rewrite::Numeric::reassociation);
      CHECK(found.applied[0].value == s.last);
      CHECK(found.local == s.g.graph.values.size());
      CHECK(found.graph.values[static_cast<std::size_t>(s.last)].shape == s.of(s.last).shape);
      CHECK_FALSE(has(found.graph, "linear.default"));
      check_equal(s.g.graph, found.graph);
    }
  }
}

TEST_CASE("the proof tells a wrong rewrite from a right one") {
  Sum s;
  s.scalar("add.Tensor", 0.5);
  s.fold("sum.dim_IntList", 1, true);
  Rewritten found = rewrite::rewrite(s.g.graph);
  REQUIRE(found.applied.size() == 1);
  // The summand counts once for each column; as it stood before it would count once.
  for (ir::GraphNode& node : found.graph.nodes) {
    const ir::Arg* other = node.arg("other");
    if (node.op != "aten.add.Tensor" || other == nullptr || !std::holds_alternative<double>(other->data)) continue;
    CHECK(std::get<double>(other->data) == 0.5 * 17);
    for (ir::Arg& arg : node.args) {
      if (arg.name == "other") arg.data = 0.5;
    }
  }
  const auto inputs = random_inputs(s.g.graph, 0);
  CHECK(rewrite::evaluate(s.g.graph, inputs, s.last) != rewrite::evaluate(found.graph, inputs, s.last));
}

TEST_CASE("products of every form are recognised") {
  for (const char* op : {"mm.default", "matmul.default"}) {
    GraphBuilder g;
    const int x = g.input({32, 3}), w = g.input({3, 16});
    const int p = g.node(op, {V("self", x), V(op[1] == 'm' ? "mat2" : "other", w)}, {32, 16});
    g.output(g.node("sum.dim_IntList", {V("self", p), L("dim", {1}), B("keepdim", false), N("dtype")}, {32}));
    const Rewritten found = rewrite::rewrite(g.graph);
    REQUIRE(found.applied.size() == 1);
    check_equal(g.graph, found.graph);
  }
}

TEST_CASE("a sum stays where a condition is missing") {
  const std::string sum = "sum.dim_IntList";
  SUBCASE("it is over the rows") {
    Sum s;
    s.fold(sum, 0, true);
    unchanged(s.g.graph);
  }
  SUBCASE("the product is read by something else") {
    Sum s;
    s.fold(sum, 1, true);
    s.g.output(s.g.node("relu.default", {V("self", s.product)}, {16, 17}));
    unchanged(s.g.graph);
  }
  SUBCASE("what lies in between is an output") {
    Sum s;
    s.scalar("mul.Tensor", 2.0);
    s.g.output(s.last);
    s.fold(sum, 1, true);
    unchanged(s.g.graph);
  }
  SUBCASE("something in between is not linear") {
    Sum s;
    s.last = s.g.node("relu.default", {V("self", s.last)}, {16, 17});
    s.fold(sum, 1, true);
    unchanged(s.g.graph);
  }
  SUBCASE("a summand is scaled") {
    Sum s;
    s.last = s.g.node("add.Tensor", {V("self", s.last), F("other", 1.0), F("alpha", 2.0)}, {16, 17});
    s.fold(sum, 1, true);
    unchanged(s.g.graph);
  }
  SUBCASE("a factor is a tensor") {
    Sum s;
    s.last = s.g.node("mul.Tensor", {V("self", s.last), V("other", s.bias)}, {16, 17});
    s.fold(sum, 1, true);
    unchanged(s.g.graph);
  }
  SUBCASE("it has few rows") {
    Sum s({15});
    s.fold(sum, 1, true);
    unchanged(s.g.graph);
  }
  SUBCASE("it has few columns") {
    Sum s({16}, 5, 15);
    s.fold(sum, 1, true);
    unchanged(s.g.graph);
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    Sum s({16}, 5, 17, DType::bf16);
    s.fold(sum, 1, true);
    unchanged(s.g.graph);
  }
  SUBCASE("both factors are batches") {
    GraphBuilder g;
    const int x = g.input({16, 32, 3}), w = g.input({16, 3, 16});
    const int p = g.node("matmul.default", {V("self", x), V("other", w)}, {16, 32, 16});
    g.output(g.node(sum, {V("self", p), L("dim", {2}), B("keepdim", false), N("dtype")}, {16, 32}));
    unchanged(g.graph);
  }
  SUBCASE("it is a maximum") {
    Sum s;
    s.fold("amax.default", 1, true);
    unchanged(s.g.graph);
  }
}

namespace {

/// diag(a) as torch captures it, times a matrix. What a test changes: the zero, the count's step, the count's form.
ir::Graph diagonal(bool left, double zero = 0, std::int64_t step = 1, const char* compare = "eq.Tensor",
                   DType dtype = DType::f32) {
  GraphBuilder g;
  const int a = g.input({6}, dtype), b = g.input(left ? Shape{6, 5} : Shape{5, 6}, dtype);
  const int row = g.node("unsqueeze.default", {V("self", a), I("dim", 0)}, {1, 6}, dtype);
  const auto count = [&] {
    return g.node("arange.start_step", {I("start", 0), I("end", 6 * step), I("step", step)}, {6}, DType::i64);
  };
  const int along = count();
  const int down = g.node("unsqueeze.default", {V("self", count()), I("dim", -1)}, {6, 1}, DType::i64);
  const int same = g.node(compare, {V("self", along), V("other", down)}, {6, 6}, DType::boolean);
  const int view = g.node("view.default", {V("self", same), L("size", {6, 6})}, {6, 6}, DType::boolean);
  const int nothing = g.node("scalar_tensor.default", {F("s", zero)}, {}, dtype);
  const int d = g.node("where.self", {V("condition", view), V("self", row), V("other", nothing)}, {6, 6}, dtype);
  g.output(g.node("matmul.default", {V("self", left ? d : b), V("other", left ? b : d)},
                  left ? Shape{6, 5} : Shape{5, 6}, dtype));
  return g.graph;
}

}  // namespace

TEST_CASE("a product with a diagonal matrix scales rows or columns") {
  for (const bool left : {true, false}) {
    const Rewritten found = rewrite::rewrite(diagonal(left));
    REQUIRE(found.applied.size() == 1);
    CHECK(found.applied[0].rule == "diagonal_product");
    CHECK(found.applied[0].numeric == rewrite::Numeric::exact);
    CHECK_FALSE(has(found.graph, "matmul.default"));
    CHECK_FALSE(has(found.graph, "eq.Tensor"));
  }
}

TEST_CASE("a product stays where its factor is not surely diagonal") {
  unchanged(diagonal(true, 0.5));
  unchanged(diagonal(true, 0, 2));
  unchanged(diagonal(true, 0, 1, "le.Tensor"));
  unchanged(diagonal(true, 0, 1, "eq.Tensor", DType::bf16));
}

TEST_CASE("a softmax of one element needs no fold") {
  for (const char* op : {"_softmax.default", "_log_softmax.default"}) {
    GraphBuilder g;
    const int x = g.input({4, 1});
    g.output(g.node(op, {V("self", x), I("dim", -1), B("half_to_float", false)}, {4, 1}));
    const Rewritten found = rewrite::rewrite(g.graph);
    REQUIRE(found.applied.size() == 1);
    CHECK(found.applied[0].numeric == rewrite::Numeric::exact);
    CHECK_FALSE(has(found.graph, op));
    CHECK(has(found.graph, "sub.Tensor"));
    CHECK(has(found.graph, "add.Tensor") == (std::string(op) == "_softmax.default"));
  }
  for (const bool keepdim : {false, true}) {
    GraphBuilder g;
    const int x = g.input({4, 1, 1});
    const Shape out = keepdim ? Shape{4, 1, 1} : Shape{4};
    g.output(g.node("logsumexp.default", {V("self", x), L("dim", {1, -1}), B("keepdim", keepdim)}, out));
    const Rewritten found = rewrite::rewrite(g.graph);
    REQUIRE(found.applied.size() == 1);
    CHECK(has(found.graph, "mul.Tensor"));
    CHECK(has(found.graph, "view.default") == !keepdim);
  }
}

TEST_CASE("a softmax of more, or of other numbers, stays") {
  const auto softmax = [](const Shape& shape, std::int64_t dim, DType from, DType to) {
    GraphBuilder g;
    const int x = g.input(shape, from);
    g.output(g.node("_softmax.default", {V("self", x), I("dim", dim), B("half_to_float", from != to)}, shape, to));
    return g.graph;
  };
  unchanged(softmax({4, 2}, 1, DType::f32, DType::f32));
  unchanged(softmax({4, 1}, 0, DType::f32, DType::f32));
  unchanged(softmax({4, 1}, 1, DType::f16, DType::f16));
  unchanged(softmax({4, 1}, 1, DType::f16, DType::f32));
}

namespace {

/// A convolution and a fold of its results. What a test changes stands in the fields.
struct Convolved {
  bool transposed = false;
  Shape x{2, 3, 6, 7}, w{4, 3, 3, 2}, out{2, 4, 6, 8};
  std::vector<std::int64_t> stride{1, 1}, padding{1, 1}, dilation{1, 1}, over{2, 3};
  std::int64_t groups = 1;
  DType dtype = DType::f32;
  bool keepdim = true, read_again = false, bias = true, parameter = true;
  double factor = 0.75;
  const char* between = nullptr;  ///< an operator without numbers
  const char* fold = "mean.dim";

  ir::Graph graph() const {
    GraphBuilder g;
    const int input = g.input(x, dtype), weight = g.input(w, dtype);
    if (parameter) g.graph.inputs.back().kind = "param";
    const std::string dims = std::to_string(x.size() - 2);
    std::vector<ir::Arg> args{V("input", input), V("weight", weight)};
    if (bias) args.push_back(V("bias", g.input({out[1]}, dtype)));
    for (const auto& [name, list] : {std::pair{"stride", stride}, {"padding", padding}, {"dilation", dilation}})
      args.push_back(L(name, list));
    args.push_back(I("groups", groups));
    const std::string op =
        (transposed ? "conv_transpose" : "conv") + dims + "d." + (transposed && x.size() > 3 ? "input" : "default");
    const int y = g.node(op, args, out, dtype);
    int last = g.node("mul.Tensor", {V("self", y), F("other", factor)}, out, dtype);
    if (between != nullptr) last = g.node(between, {V("self", last)}, out, dtype);
    Shape less;
    for (std::size_t d = 0; d < out.size(); ++d) {
      const bool goes = std::ranges::find(over, static_cast<std::int64_t>(d)) != over.end();
      if (!goes || keepdim) less.push_back(goes ? 1 : out[d]);
    }
    g.output(g.node(fold, {V("self", last), L("dim", over), B("keepdim", keepdim), N("dtype")}, less, dtype));
    if (read_again) g.output(g.node("relu.default", {V("self", y)}, out, dtype));
    return g.graph;
  }
};

/// A transposed one: stride 2, padding 1.
Convolved transposed() {
  Convolved c;
  c.transposed = true;
  c.w = {3, 4, 3, 4};
  c.stride = {2, 2};
  c.out = {2, 4, 11, 14};
  return c;
}

}  // namespace

TEST_CASE("a sum over a convolution's places is a product of sums over what each tap meets") {
  std::vector<Convolved> all(7);
  all[1].keepdim = false;
  all[1].fold = "sum.dim_IntList";
  all[2].padding = {0, 2};
  all[2].dilation = {2, 1};
  all[2].out = {2, 4, 2, 10};
  all[2].bias = false;
  all[3] = transposed();
  all[4] = transposed();
  all[4].padding = {0, 0};
  all[4].out = {2, 4, 13, 16};
  all[5] = transposed();
  all[5].stride = {3, 1};
  all[5].dilation = {1, 2};
  all[5].padding = {2, 3};
  all[5].out = {2, 4, 15, 7};  // with an output padding of 1
  all[6].x = {2, 3, 4, 5, 6};
  all[6].w = {4, 3, 3, 3, 2};
  all[6].out = {2, 4, 4, 5, 5};
  all[6].stride = all[6].dilation = {1, 1, 1};
  all[6].padding = {1, 1, 0};
  all[6].over = {2, 3, 4};
  for (const Convolved& c : all) {
    const ir::Graph graph = c.graph();
    const Rewritten found = rewrite::rewrite(graph);
    REQUIRE(found.applied.size() == 1);
    CHECK(found.applied[0].rule == "sum_through_convolution");
    CHECK(found.applied[0].numeric == rewrite::Numeric::reassociation);
    CHECK(std::ranges::none_of(found.graph.nodes, [](const auto& node) { return node.op.starts_with("aten.conv"); }));
    check_equal(graph, found.graph);
  }
  // Without padding every tap of a transposed one meets every element: one sum a dim.
  const auto sums = [](const Convolved& c) {
    const auto found = rewrite::rewrite(c.graph());
    return std::ranges::count(found.graph.nodes, "aten.sum.dim_IntList", &ir::GraphNode::op);
  };
  CHECK(sums(all[4]) == 3);
  CHECK(sums(all[0]) == 1 + 3 + 1);
}

TEST_CASE("a sum over some of a convolution's dims is a convolution along the others") {
  std::vector<Convolved> all(6);
  for (Convolved& c : all) {
    c.x = {2, 3, 9, 6, 7};
    c.w = {4, 3, 3, 3, 2};
    c.stride = c.padding = c.dilation = {1, 1, 1};
    c.out = {2, 4, 9, 6, 8};
    c.over = {2};
  }
  all[1].over = {4};
  all[1].keepdim = false;
  all[1].bias = false;
  all[2].over = {2, 4};
  all[2].fold = "sum.dim_IntList";
  all[3].stride = {1, 2, 3};  // where nothing is summed
  all[3].out = {2, 4, 9, 3, 3};
  all[4].transposed = all[5].transposed = true;
  all[4].w = all[5].w = {3, 4, 3, 3, 2};
  all[4].stride = {2, 3, 1};
  all[4].out = {2, 4, 17, 16, 6};
  all[4].over = {2, 3};
  all[5].padding = {0, 1, 0};  // every tap meets all that is summed
  all[5].stride = {1, 2, 1};
  all[5].out = {2, 4, 11, 11, 8};
  for (const Convolved& c : all) {
    const ir::Graph graph = c.graph();
    const Rewritten found = rewrite::rewrite(graph);
    REQUIRE(found.applied.size() == 1);
    CHECK(found.applied[0].rule == "sum_through_convolution");
    const auto left =
        std::ranges::find_if(found.graph.nodes, [](const auto& node) { return node.op.starts_with("aten.conv"); });
    REQUIRE(left != found.graph.nodes.end());
    const std::size_t dims = c.x.size() - 2 - c.over.size();
    CHECK(left->op.starts_with((c.transposed ? "aten.conv_transpose" : "aten.conv") + std::to_string(dims) + "d."));
    check_equal(graph, found.graph);
  }
  // What all taps meet is summed once, and meets the weights of each.
  const auto found = rewrite::rewrite(all[5].graph());
  CHECK(std::ranges::count(found.graph.nodes, "aten.sum.dim_IntList", &ir::GraphNode::op) == 1);
  CHECK(std::ranges::count(found.graph.nodes, "aten.select.int", &ir::GraphNode::op) == 3);
}

TEST_CASE("the proof tells a wrong box from a right one") {
  const ir::Graph graph = Convolved().graph();
  Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() == 1);
  for (ir::GraphNode& node : found.graph.nodes) {
    for (ir::Arg& arg : node.args) {
      if (node.op == "aten.slice.Tensor" && arg.name == "start")
        arg.data = std::int64_t{1} - std::get<std::int64_t>(arg.data);
    }
  }
  rewrite::check_different(graph, found.graph);
}

TEST_CASE("a sum over places stays where a condition is missing") {
  Convolved c;
  SUBCASE("it is over few places of one dim") {
    c.over = {2};
  }
  SUBCASE("a stride skips elements of a dim that is summed alone") {
    c.over = {3};
    c.stride = {1, 2};
    c.x = {2, 3, 6, 19};
    c.out = {2, 4, 6, 10};
  }
  SUBCASE("it is over the channels as well") {
    c.over = {1, 2, 3};
  }
  SUBCASE("something else reads the convolution") {
    c.read_again = true;
  }
  SUBCASE("something in between is not linear") {
    c.between = "relu.default";
  }
  SUBCASE("it is a maximum") {
    c.fold = "amax.default";
    c.factor = -0.75;
  }
  SUBCASE("there are groups") {
    c.x = {2, 6, 6, 7};
    c.groups = 2;
  }
  SUBCASE("a stride skips elements") {
    c.stride = {2, 1};
    c.out = {2, 4, 3, 8};
  }
  SUBCASE("a tap meets padding alone") {
    c.dilation = {7, 1};
    c.padding = {7, 1};
  }
  SUBCASE("there are few places") {
    c.x = {2, 3, 3, 5};
    c.out = {2, 4, 3, 5};
    c.padding = {1, 0};
    c.w = {4, 3, 3, 1};
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    c.dtype = DType::bf16;
  }
  SUBCASE("the weights are data of the caller's") {
    c.parameter = false;
  }
  unchanged(c.graph());
}
