// Running values: which graphs become scan kernels, and what they mean.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/graph_builder.h"
#include "codegen/interpreter.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"

using namespace planish;
using namespace planish::codegen;

namespace {

constexpr std::int64_t R = 3, C = 7;

double datum(std::int64_t r, std::int64_t c) {
  return std::sin(static_cast<double>(r * C + c) * 7 + 1) * 2;
}

/// Lowers the node behind `id`, with everything before it, and compares it with f(row, column) on the data above.
Kernel check(const GraphBuilder& g, int id, const std::function<double(std::int64_t, std::int64_t)>& f) {
  const int ids[] = {id};
  const auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), ids);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  std::vector<double> data;
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t c = 0; c < C; ++c) data.push_back(datum(r, c));
  const auto result = Interpreter(*kernel, std::vector<std::vector<double>>(kernel->inputs.size(), data)).run();
  const auto& v = g.graph.values[static_cast<std::size_t>(id)];
  bool same = true;
  for (std::int64_t r = 0; r < v.shape[0]; ++r)
    for (std::int64_t c = 0; c < v.shape[1]; ++c) {
      const double got = result[0][static_cast<std::size_t>(r * v.strides[0] + c * v.strides[1])], want = f(r, c);
      same = same && std::abs(got - want) <= 1e-9 * (1 + std::abs(want));
    }
  CHECK_MESSAGE(same, text(*kernel));
  return *kernel;
}

double sum_to(std::int64_t r, std::int64_t upto, std::int64_t from = 0) {
  double sum = 0;
  for (std::int64_t c = from; c < upto; ++c) sum += datum(r, c);
  return sum;
}

int cumsum(GraphBuilder& g, int x, std::int64_t dim, const Shape& shape) {
  return g.node("cumsum.default", {V("self", x), I("dim", dim), N("dtype")}, shape);
}

std::string refused(const GraphBuilder& g, const std::vector<int>& ids) {
  const auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), ids);
  REQUIRE_FALSE(kernel.has_value());
  CHECK(kernel.error().kind.name() == "unsupported");
  return kernel.error().message;
}

}  // namespace

TEST_CASE("a cumsum with pointwise work around it is one scan kernel") {
  GraphBuilder g;
  const int x = g.input({R, C});
  const int a = g.node("mul.Tensor", {V("self", x), V("other", x)}, {R, C});
  const int b = g.node("exp.default", {V("self", cumsum(g, a, 1, {R, C}))}, {R, C});
  const auto k = check(g, b, [](std::int64_t r, std::int64_t c) {
    double sum = 0;
    for (std::int64_t i = 0; i <= c; ++i) sum += datum(r, i) * datum(r, i);
    return std::exp(sum);
  });
  CHECK(text(k) ==
        "scan space [3, 7] inner 1\n"
        "in0: f32 [3, 7] strides [7, 1]\n"
        "%0 = load f32 in0[7*d0 + d1]\n"
        "%1 = mul f32 %0 %0\n"
        "%2 = scanned f32 s0\n"
        "%3 = exp f32 %2\n"
        "s0 = running sum %1 in f32\n"
        "out0: f32 [3, 7] strides [7, 1] [7*d0 + d1] = %3\n");
}

TEST_CASE("flip, cumsum, flip is a scan from the end; one flip alone only reads backwards") {
  GraphBuilder g;
  const int x = g.input({R, C});
  const int a = g.node("flip.default", {V("self", x), L("dims", {1})}, {R, C});
  const int b = cumsum(g, a, 1, {R, C});
  const int c = g.node("flip.default", {V("self", b), L("dims", {-1})}, {R, C});
  const auto k = check(g, c, [](std::int64_t r, std::int64_t col) { return sum_to(r, C, col); });
  CHECK(k.reversed);
  CHECK(text(k).find("load f32 in0[7*d0 + d1]") != std::string::npos);
  CHECK_FALSE(check(g, b, [](std::int64_t r, std::int64_t col) { return sum_to(r, C, C - 1 - col); }).reversed);
}

TEST_CASE("exclusive forms: minus itself, padded, concatenated, cut off") {
  GraphBuilder g;
  const int x = g.input({R, C});
  const int sum = cumsum(g, x, 1, {R, C});
  const auto before = [](std::int64_t r, std::int64_t c) { return sum_to(r, c); };
  const int minus = g.node("sub.Tensor", {V("self", sum), V("other", x), I("alpha", 1)}, {R, C});
  check(g, minus, before);

  const int zeros = g.node("zeros.default", {L("size", {R, 1})}, {R, 1});
  const int most = g.node("slice.Tensor", {V("self", sum), I("dim", 1), I("start", 0), I("end", C - 1)}, {R, C - 1},
                          DType::f32, {C, 1});
  const int cat = g.node("cat.default", {VS("tensors", {zeros, most}), I("dim", 1)}, {R, C});
  const auto k = check(g, cat, before);
  CHECK(text(k).find("scanned f32 s0 before") != std::string::npos);

  // One longer than the row: every partial sum, the empty one and the whole.
  const int all = g.node("cat.default", {VS("tensors", {zeros, sum}), I("dim", 1)}, {R, C + 1});
  check(g, all, before);
  const int padded =
      g.node("constant_pad_nd.default", {V("self", sum), L("pad", {3, 0}), F("value", -1.5)}, {R, C + 3});
  check(g, padded, [](std::int64_t r, std::int64_t c) { return c < 3 ? -1.5 : sum_to(r, c - 2); });
  // The argument may be cut instead.
  const int shifted = g.node("constant_pad_nd.default", {V("self", x), L("pad", {1, -1}), F("value", 0.0)}, {R, C});
  check(g, cumsum(g, shifted, 1, {R, C}), before);
  const int tail =
      g.node("slice.Tensor", {V("self", sum), I("dim", 1), I("start", 2), I("end", C)}, {R, C - 2}, DType::f32, {C, 1});
  CHECK(refused(g, {tail}).find("cut off") != std::string::npos);
  const int head =
      g.node("slice.Tensor", {V("self", sum), I("dim", 1), I("start", 0), I("end", 4)}, {R, 4}, DType::f32, {C, 1});
  const int twice = g.node("mul.Tensor", {V("self", head), V("other", head)}, {R, 4});
  check(g, twice, [](std::int64_t r, std::int64_t c) { return sum_to(r, c + 1) * sum_to(r, c + 1); });
}

TEST_CASE("a masked cumsum keeps the mask inside, and what a condition hides still counts") {
  GraphBuilder g;
  const int x = g.input({R, C});
  const int low = g.node("tril.default", {V("self", x), I("diagonal", 1)}, {R, C});
  check(g, cumsum(g, low, 1, {R, C}), [](std::int64_t r, std::int64_t c) { return sum_to(r, std::min(c + 1, r + 2)); });
  const int hidden = g.node("tril.default", {V("self", cumsum(g, x, 1, {R, C})), I("diagonal", 1)}, {R, C});
  check(g, hidden, [](std::int64_t r, std::int64_t c) { return c <= r + 1 ? sum_to(r, c + 1) : 0; });
}

TEST_CASE("any dim, and rows of several dims through reshapes") {
  GraphBuilder g;
  const int x = g.input({R, C});
  const auto down = check(g, cumsum(g, x, 0, {R, C}), [](std::int64_t r, std::int64_t c) {
    double sum = 0;
    for (std::int64_t i = 0; i <= r; ++i) sum += datum(i, c);
    return sum;
  });
  CHECK(down.space.extents == std::vector<std::int64_t>{C, R});
  const int flat = g.node("view.default", {V("self", x), L("size", {R * C})}, {R * C});
  const int whole = g.node("cumsum.default", {V("self", flat), I("dim", 0), N("dtype")}, {R * C});
  const int back = g.node("view.default", {V("self", whole), L("size", {R, C})}, {R, C});
  const auto k = check(g, back, [](std::int64_t r, std::int64_t c) {
    double sum = sum_to(r, c + 1);
    for (std::int64_t i = 0; i < r; ++i) sum += sum_to(i, C);
    return sum;
  });
  CHECK(k.inner_extent() == R * C);
  const int one = g.input({R, 1});
  const int alone = g.node("cumsum.default", {V("self", one), I("dim", 1), N("dtype")}, {R, 1});
  const int ids[] = {alone};
  CHECK(lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), ids)->anchor == Anchor::pointwise);
}

TEST_CASE("the other kinds, their dtypes, and positions beside values") {
  GraphBuilder g;
  const int x = g.input({R, C});
  const int product = g.node("cumprod.default", {V("self", x), I("dim", 1), N("dtype")}, {R, C});
  const auto k = check(g, product, [](std::int64_t r, std::int64_t c) {
    double p = 1;
    for (std::int64_t i = 0; i <= c; ++i) p *= datum(r, i);
    return p;
  });
  CHECK(k.scans[0].accumulate == DType::f64);
  check(g, g.node("logcumsumexp.default", {V("self", x), I("dim", 1)}, {R, C}), [](std::int64_t r, std::int64_t c) {
    double sum = 0;
    for (std::int64_t i = 0; i <= c; ++i) sum += std::exp(datum(r, i));
    return std::log(sum);
  });
  const int values = g.value({R, C}), indices = g.value({R, C}, DType::i64);
  g.graph.nodes.push_back({"aten.cummin.default", {V("self", x), I("dim", 1)}, {values, indices}});
  const auto least = [](std::int64_t r, std::int64_t c) {
    std::int64_t best = 0;
    for (std::int64_t i = 0; i <= c; ++i) best = datum(r, i) <= datum(r, best) ? i : best;
    return best;
  };
  check(g, values, [&](std::int64_t r, std::int64_t c) { return datum(r, least(r, c)); });
  check(g, indices, [&](std::int64_t r, std::int64_t c) { return static_cast<double>(least(r, c)); });
  const int both[] = {values, indices};
  const auto pair = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), both);
  REQUIRE(pair.has_value());
  CHECK(pair->scans.size() == 1);
  CHECK(pair->scans[0].at >= 0);

  const int mask = g.input({R, C}, DType::boolean);
  const int count = g.node("cumsum.default", {V("self", mask), I("dim", 1), N("dtype")}, {R, C}, DType::i64);
  const int counted[] = {count};
  const auto counts = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), counted);
  REQUIRE(counts.has_value());
  CHECK(counts->scans[0].accumulate == DType::i64);
}

TEST_CASE("reductions of the same row come before a scan; others do not share its kernel") {
  GraphBuilder g;
  const int x = g.input({R, C});
  const int sum = cumsum(g, x, 1, {R, C});
  const int total = g.node("sum.dim_IntList", {V("self", x), L("dim", {1}), B("keepdim", true), N("dtype")}, {R, 1});
  const int share = g.node("div.Tensor", {V("self", sum), V("other", total)}, {R, C});
  check(g, share, [](std::int64_t r, std::int64_t c) { return sum_to(r, c + 1) / sum_to(r, C); });
  const int after = g.node("sum.dim_IntList", {V("self", sum), L("dim", {1}), B("keepdim", true), N("dtype")}, {R, 1});
  CHECK(refused(g, {after}).find("one place") == std::string::npos);
  const int down = cumsum(g, x, 0, {R, C});
  CHECK(refused(g, {g.node("add.Tensor", {V("self", sum), V("other", down), I("alpha", 1)}, {R, C})}) ==
        "a running value along another row");
  CHECK(refused(g, {cumsum(g, sum, 1, {R, C})}) == "a running value of running values");
  const int back = g.node("flip.default", {V("self", sum), L("dims", {1})}, {R, C});
  CHECK(refused(g, {g.node("add.Tensor", {V("self", sum), V("other", back), I("alpha", 1)}, {R, C})}) ==
        "running values in both directions");
}

TEST_CASE("partition makes one region of a reversed cumsum with a gate, two where directions differ") {
  GraphBuilder g;
  const int x = g.input({64, 256}), y = g.input({64, 256});
  const int a = g.node("flip.default", {V("self", x), L("dims", {1})}, {64, 256});
  const int b = g.node("flip.default", {V("self", cumsum(g, a, 1, {64, 256})), L("dims", {1})}, {64, 256});
  const int gate = g.node("sigmoid.default", {V("self", y)}, {64, 256});
  const int out = g.node("mul.Tensor", {V("self", b), V("other", gate)}, {64, 256});
  g.output(out);
  const auto p = partition(g.graph);
  REQUIRE(p.has_value());
  CHECK(p->regions.size() == 1);
  CHECK(p->regions[0].kernel.reversed);
  const int forward = cumsum(g, x, 1, {64, 256});
  g.output(g.node("add.Tensor", {V("self", forward), V("other", out), I("alpha", 1)}, {64, 256}));
  const auto two = partition(g.graph);
  REQUIRE(two.has_value());
  CHECK(two->regions.size() == 2);
}
