#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"
#include "rewrite/rewrite.h"

// Products with triangular and banded matrices.

using namespace planish;
using namespace planish::codegen;
using rewrite::check_equal;
using rewrite::has;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

constexpr rewrite::Options small{.block = 64};

/// Matrices and masks as torch captures them.
struct Matrices {
  GraphBuilder g;
  DType dtype = DType::f32;

  const Shape& shape(int id) const { return g.graph.values[static_cast<std::size_t>(id)].shape; }
  int given(const Shape& shape, const std::string& kind = "user") {
    const int id = g.input(shape, dtype);
    g.graph.inputs.back().kind = kind;
    return id;
  }
  int count(std::int64_t n, std::int64_t start = 0, std::int64_t step = 1, DType of = DType::i64) {
    return g.node("arange.start_step", {I("start", start), I("end", start + n * step), I("step", step)}, {n}, of);
  }
  int row(int counted) {
    return g.node("unsqueeze.default", {V("self", counted), I("dim", -2)}, {1, shape(counted)[0]}, DType::i64);
  }
  int column(int counted) {
    return g.node("unsqueeze.default", {V("self", counted), I("dim", -1)}, {shape(counted)[0], 1}, DType::i64);
  }
  /// Column less row.
  int offset(std::int64_t rows, std::int64_t columns) {
    const int j = row(count(columns)), i = column(count(rows));
    return g.node("sub.Tensor", {V("self", j), V("other", i), I("alpha", 1)}, {rows, columns}, DType::i64);
  }
  int compared(const std::string& how, int value, std::int64_t other) {
    return g.node(how + ".Scalar", {V("self", value), I("other", other)}, shape(value), DType::boolean);
  }
  int number(double value) { return g.node("scalar_tensor.default", {F("s", value)}, {}, dtype); }
  int choose(int condition, int self, int other) {
    const Shape full = shape(shape(self).empty() ? other : self);
    return g.node("where.self", {V("condition", condition), V("self", self), V("other", other)}, full, dtype);
  }
  int triangle(int x, const char* how, std::int64_t diagonal = 0) {
    const Shape full = shape(x);
    return choose(compared(how, offset(full[full.size() - 2], full.back()), diagonal), x, number(0));
  }
  int tril(int x, std::int64_t diagonal = 0) { return triangle(x, "le", diagonal); }
  int triu(int x, std::int64_t diagonal = 0) { return triangle(x, "ge", diagonal); }
  int product(int x, int w, const std::string& op = "matmul.default") {
    Shape full = shape(x);
    const Shape right = shape(w);
    full.back() = right.back();
    return g.node(op, {V("self", x), V(op[0] == 'm' && op[1] == 'a' ? "other" : "mat2", w)}, full, dtype);
  }
  int linear(int x, int w, int bias = -1) {
    Shape full = shape(x);
    full.back() = shape(w)[0];
    return g.node("linear.default", {V("input", x), V("weight", w), bias < 0 ? N("bias") : V("bias", bias)}, full,
                  dtype);
  }
  int scaled(int x, double by) { return g.node("mul.Tensor", {V("self", x), F("other", by)}, shape(x), dtype); }
  int turned(int x) {
    const Shape full = shape(x);
    return g.node("permute.default", {V("self", x), L("dims", {1, 0})}, {full[1], full[0]}, dtype, {1, full[1]});
  }
  const ir::Graph& result(int id) {
    g.output(id);
    return g.graph;
  }
};

/// Multiplications of the graph's products.
double work(const ir::Graph& graph) {
  double sum = 0;
  for (const ir::GraphNode& node : graph.nodes) {
    const ir::Arg* x = node.arg(node.op == "aten.linear.default" ? "input" : "self");
    if (node.op != "aten.matmul.default" && node.op != "aten.mm.default" && node.op != "aten.bmm.default" &&
        node.op != "aten.linear.default")
      continue;
    const auto& left = graph.values[static_cast<std::size_t>(std::get<ir::ValueRef>(x->data).id)];
    const auto& out = graph.values[static_cast<std::size_t>(*node.outs[0])];
    sum += static_cast<double>(out.elements()) * static_cast<double>(left.shape.back());
  }
  return sum;
}

/// Whether zeros are multiplied, for what is not finite.
bool mends(const ir::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const ir::GraphNode& node) {
    const ir::Arg* other = node.arg("other");
    const auto* by = other == nullptr ? nullptr : std::get_if<double>(&other->data);
    return node.op == "aten.mul.Tensor" && by != nullptr && *by == 0;
  });
}

void cut(const ir::Graph& graph, double left, bool mended, int times = 1) {
  const Rewritten found = rewrite::rewrite(graph, small);
  REQUIRE(std::ssize(found.applied) == times);
  for (const auto& one : found.applied) {
    CHECK(one.rule == "banded_product");
    CHECK(one.numeric == rewrite::Numeric::reassociation);
  }
  CHECK(work(found.graph) == doctest::Approx(left * work(graph)).epsilon(1e-9));
  CHECK(mends(found.graph) == mended);
  check_equal(graph, found.graph, 1);
}

}  // namespace

TEST_CASE("of a product of which a triangle is wanted, blocks of the triangle are computed") {
  Matrices m;
  const int x = m.given({256, 256}), w = m.given({256, 256});
  const int y = m.product(x, w, "mm.default");
  // Four strips: all but 6 of 16 blocks of 64.
  SUBCASE("the upper one") {
    cut(m.result(m.triu(y)), 10 / 16.0, false);
  }
  SUBCASE("the lower one") {
    cut(m.result(m.tril(y)), 10 / 16.0, false);
  }
  SUBCASE("beyond a diagonal, from which one more place of each strip counts") {
    cut(m.result(m.tril(y, -64)), (0 + 64 + 128 + 192) / 1024.0, false);
  }
  SUBCASE("with arithmetic and numbers between") {
    const int z = m.g.node("tanh.default", {V("self", m.scaled(y, 0.5))}, {256, 256});
    const Rewritten found = rewrite::rewrite(m.result(m.triu(z)), small);
    REQUIRE(found.applied.size() == 1);
    CHECK(work(found.graph) == 10 / 16.0 * work(m.g.graph));
  }
  SUBCASE("and both triangles of different parts") {
    m.g.output(m.triu(y, 128));
    cut(m.result(m.triu(y, 64)), (192 + 128 + 64) / 1024.0, false);
  }
  SUBCASE("where a mask chooses what is not in it") {
    // masked_fill(ones.triu(1) != 0, …)
    const int ones = m.g.node("full.default", {L("size", {256, 256}), I("fill_value", 1)}, {256, 256});
    const int mask = m.compared("ne", m.triu(ones, 1), 0);
    cut(m.result(m.choose(mask, m.number(-7), y)), 10 / 16.0, false);
  }
  SUBCASE("a band, by a distance") {
    const int apart = m.g.node("abs.default", {V("self", m.offset(256, 256))}, {256, 256}, DType::i64);
    cut(m.result(m.choose(m.compared("le", apart, 64), y, m.number(0))), (128 + 192 + 192 + 128) / 1024.0, false);
  }
}

TEST_CASE("of batches, with extents that are no multiples of a block, which begin and end at multiples of 64") {
  Matrices m;
  const int x = m.given({2, 200, 260}), w = m.given({2, 260, 300});
  cut(m.result(m.tril(m.product(x, w, "bmm.default"), 3)), (128 * 192 + 72 * 256) / (200 * 300.0), false);
}

TEST_CASE("of a product with a triangular matrix, terms that are zero are left out") {
  Matrices m;
  const int x = m.given({256, 256}), w = m.given({256, 256});
  SUBCASE("on the left") {
    cut(m.result(m.product(m.tril(x), w)), 10 / 16.0, true);
  }
  SUBCASE("on the right") {
    cut(m.result(m.product(x, m.triu(w))), 10 / 16.0, true);
  }
  SUBCASE("on both sides") {
    cut(m.result(m.product(m.tril(x), m.tril(w))), 20 / 64.0, true);
  }
  SUBCASE("on both sides, of either kind") {
    // Of the block in row i and column j there are 4 - max(i, j) blocks of terms.
    cut(m.result(m.product(m.triu(x), m.tril(w))), (4 + 3 * 3 + 5 * 2 + 7 * 1) / 64.0, true);
  }
  SUBCASE("whose result is cut again") {
    cut(m.result(m.tril(m.product(m.tril(x), m.tril(w)))), 20 / 64.0, true);
  }
  SUBCASE("turned, scaled and moved") {
    const int t = m.turned(m.scaled(m.tril(x), -0.5));
    const int batch = m.g.node("unsqueeze.default", {V("self", t), I("dim", 0)}, {1, 256, 256});
    const int other = m.given({1, 256, 128});
    cut(m.result(m.product(batch, other, "bmm.default")), 10 / 16.0, true);
  }
  SUBCASE("in a sum of such") {
    const int sum =
        m.g.node("add.Tensor", {V("self", m.tril(x, -64)), V("other", m.tril(w)), I("alpha", 1)}, {256, 256});
    cut(m.result(m.product(sum, w)), 10 / 16.0, true);
  }
  SUBCASE("a layer's weights, with a bias") {
    const int weights = m.given({256, 256}, "param"), bias = m.given({256}, "param");
    cut(m.result(m.linear(x, m.tril(weights), bias)), 10 / 16.0, true);
  }
  SUBCASE("by comparisons of counts, of more rows than columns") {
    const int i = m.column(m.count(320)), j = m.count(256);
    const int mask = m.g.node("lt.Tensor", {V("self", i), V("other", j)}, {320, 256}, DType::boolean);
    const int y = m.choose(mask, m.given({320, 256}), m.number(0));
    cut(m.result(m.product(y, w)), (256 + 192 + 128 + 64) / (5 * 256.0), true);
  }
}

TEST_CASE("what is the model's own needs no mend") {
  Matrices m;
  const int x = m.given({256, 256}), w = m.given({256, 256}, "param");
  cut(m.result(m.product(m.tril(x), w)), 10 / 16.0, false);
}

TEST_CASE("causal attention without a softmax is cut on both sides") {
  Matrices m;
  const int q = m.given({256, 256}), k = m.given({256, 256}), v = m.given({256, 64});
  const int scores = m.tril(m.product(q, m.turned(k)));
  cut(m.result(m.product(scores, v)), 10 / 16.0, true, 2);
}

TEST_CASE("causal attention as people write it is cut on both sides where PyTorch computes products") {
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  rewrite::Options options = small;
  std::int64_t diagonal = 0, keys = 256;
  double other = hidden;
  std::size_t times = 2;
  SUBCASE("with as many queries as keys") {}
  SUBCASE("with queries that see some more") {
    diagonal = 40;
    options.most_left = 0.9;
  }
  SUBCASE("not with queries that see nothing, which are NaN") {
    diagonal = -1;
    times = 1;
  }
  SUBCASE("nor where hidden scores count a little") {
    other = -1e4;
    times = 1;
  }
  SUBCASE("nor where kernels of ours may be attention") {
    options.library_products = false;
    times = 0;
  }
  Matrices m;
  const int q = m.given({2, 256, 256}), k = m.given({2, 256, keys}), v = m.given({2, keys, 64});
  const int mask = m.compared("le", m.offset(256, keys), diagonal);
  const int scores = m.choose(mask, m.product(q, k), m.number(other));
  const int weights =
      m.g.node("_softmax.default", {V("self", scores), I("dim", -1), B("half_to_float", false)}, {2, 256, keys});
  const ir::Graph graph = m.result(m.product(weights, v));
  const Rewritten found = rewrite::rewrite(graph, options);
  CHECK(found.applied.size() == times);
  if (times == 0) return;
  // A constant that is hidden is no number of the field.
  if (other == hidden) check_equal(graph, found.graph, 1);
  CHECK(mends(found.graph) == (times == 2));
}

TEST_CASE("rows of a softmax that are NaN would be lost on the right of a product") {
  Matrices m;
  const int x = m.given({256, 256}), s = m.given({256, 256});
  const int scores =
      m.choose(m.compared("le", m.offset(256, 256), 0), s, m.number(-std::numeric_limits<double>::infinity()));
  const int weights =
      m.g.node("_softmax.default", {V("self", scores), I("dim", -1), B("half_to_float", false)}, {256, 256});
  m.result(m.product(x, weights));
  unchanged(m.g.graph, small);
}

TEST_CASE("the proof tells a wrong block from a right one") {
  Matrices m;
  const int x = m.given({256, 256}), w = m.given({256, 256});
  const int out = m.product(m.tril(x), w);
  const ir::Graph graph = m.result(out);
  Rewritten found = rewrite::rewrite(graph, small);
  REQUIRE(found.applied.size() == 1);
  // The first strip without its last row of terms.
  const auto node = std::ranges::find_if(found.graph.nodes, [](const ir::GraphNode& one) {
    const ir::Arg* end = one.arg("end");
    return one.op == "aten.slice.Tensor" && end != nullptr && std::get<std::int64_t>(end->data) == 64;
  });
  REQUIRE(node != found.graph.nodes.end());
  for (ir::Arg& arg : node->args) {
    if (arg.name == "start") arg.data = std::int64_t{1};
  }
  const auto inputs = rewrite::random_inputs(graph, 0);
  CHECK(rewrite::evaluate(graph, inputs, out) != rewrite::evaluate(found.graph, inputs, out));
}

TEST_CASE("a product stays whole where a condition is missing") {
  Matrices m;
  const auto matrices = [&](DType dtype = DType::f32, std::int64_t rows = 256, std::int64_t depth = 256) {
    m.dtype = dtype;
    return std::pair{m.given({rows, depth}), m.given({depth, 256})};
  };
  SUBCASE("nothing is zero") {
    const auto [x, w] = matrices();
    m.result(m.product(x, w));
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    const auto [x, w] = matrices(DType::bf16);
    m.result(m.product(m.tril(x), w));
  }
  SUBCASE("there are few rows") {
    // Of two strips the first would be shorter.
    const auto [x, w] = matrices(DType::f32, 100);
    m.result(m.product(m.tril(x, 100), w));
  }
  SUBCASE("there are few terms") {
    const auto [x, w] = matrices(DType::f32, 256, 192);
    m.result(m.product(m.tril(x), w));
  }
  SUBCASE("there are few results") {
    const int x = m.given({256, 256});
    m.result(m.product(m.tril(x), m.given({256, 32})));
  }
  SUBCASE("little is zero") {
    const auto [x, w] = matrices();
    m.result(m.product(m.tril(x, 128), w));
  }
  SUBCASE("elsewhere it is another number") {
    const auto [x, w] = matrices();
    m.result(m.product(m.choose(m.compared("le", m.offset(256, 256), 0), x, m.number(0.5)), w));
  }
  SUBCASE("a mask multiplies, so that an infinity stays NaN") {
    const auto [x, w] = matrices();
    const int ones = m.tril(m.g.node("full.default", {L("size", {256, 256}), I("fill_value", 1)}, {256, 256}));
    m.result(m.product(m.g.node("mul.Tensor", {V("self", x), V("other", ones)}, {256, 256}), w));
  }
  SUBCASE("a factor that is multiplied with an infinity") {
    const auto [x, w] = matrices();
    m.result(m.product(m.scaled(m.tril(x), std::numeric_limits<double>::infinity()), w));
  }
  SUBCASE("zero becomes something else") {
    const auto [x, w] = matrices();
    m.result(m.product(m.g.node("exp.default", {V("self", m.tril(x))}, {256, 256}), w));
  }
  SUBCASE("the mask is data") {
    const auto [x, w] = matrices();
    m.result(m.product(m.choose(m.g.input({256, 256}, DType::boolean), x, m.number(0)), w));
  }
  SUBCASE("the mask counts in steps of two") {
    const auto [x, w] = matrices();
    const int i = m.column(m.count(256, 0, 2)), j = m.row(m.count(256));
    const int mask = m.g.node("ge.Tensor", {V("self", i), V("other", j)}, {256, 256}, DType::boolean);
    m.result(m.product(m.choose(mask, x, m.number(0)), w));
  }
  SUBCASE("the mask counts columns alone") {
    const auto [x, w] = matrices();
    const int mask = m.compared("lt", m.row(m.count(256)), 64);
    m.result(m.product(m.choose(mask, x, m.number(0)), w));
  }
  SUBCASE("the mask is true at one diagonal's complement, which is no band") {
    const auto [x, w] = matrices();
    const int same = m.compared("eq", m.offset(256, 256), 0);
    const int mask = m.g.node("bitwise_not.default", {V("self", same)}, {256, 256}, DType::boolean);
    m.result(m.product(m.choose(mask, x, m.number(0)), w));
  }
  SUBCASE("all of the product is read as well") {
    const auto [x, w] = matrices();
    const int y = m.product(x, w);
    m.g.output(m.tril(y));
    m.result(m.g.node("relu.default", {V("self", y)}, {256, 256}));
  }
  SUBCASE("the product is a result itself") {
    const auto [x, w] = matrices();
    const int y = m.product(x, w);
    m.g.output(m.tril(y));
    m.result(y);
  }
  SUBCASE("a sum lies between it and the triangle") {
    const auto [x, w] = matrices();
    const int y = m.g.node("_softmax.default", {V("self", m.product(x, w)), I("dim", -1)}, {256, 256});
    m.result(m.tril(y));
  }
  SUBCASE("both branches read it") {
    const auto [x, w] = matrices();
    const int y = m.product(x, w);
    m.result(m.choose(m.compared("le", m.offset(256, 256), 0), y, y));
  }
  unchanged(m.g.graph, small);
}

TEST_CASE("scores that a mask hides stay where kernels of ours compute products, and may be attention") {
  for (const double hidden : {0.0, -1.0}) {
    Matrices m;
    const int y = m.product(m.given({256, 256}), m.given({256, 256}));
    m.result(m.choose(m.compared("le", m.offset(256, 256), 0), y, m.number(hidden)));
    rewrite::Options options = small;
    CHECK(rewrite::rewrite(m.g.graph, options).applied.size() == 1);
    options.library_products = false;
    CHECK(rewrite::rewrite(m.g.graph, options).applied.size() == (hidden == 0 ? 1 : 0));
  }
}
