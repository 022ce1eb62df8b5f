// The least bytes that a kernel moves: what is never read does not count.
#include <doctest/doctest.h>

#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"

using namespace planish;
using namespace planish::codegen;

namespace {

double bytes(GraphBuilder& g, int output) {
  const int outputs[] = {output};
  const auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  return cost(*kernel).bytes;
}

/// column <op> row over [n, n], as masks are made from positions.
int positions(GraphBuilder& g, std::int64_t n, const char* op) {
  const auto range = [&] {
    return g.node("arange.start_step", {I("start", 0), I("end", n), I("step", 1)}, {n}, DType::i64);
  };
  const int column = g.node("unsqueeze.default", {V("self", range()), I("dim", 0)}, {1, n}, DType::i64);
  const int row = g.node("unsqueeze.default", {V("self", range()), I("dim", 1)}, {n, 1}, DType::i64);
  return g.node(op, {V("self", column), V("other", row)}, {n, n}, DType::boolean);
}

int fill(GraphBuilder& g, int x, int mask, const Shape& shape) {
  return g.node("masked_fill.Scalar", {V("self", x), V("mask", mask), F("value", -1)}, shape);
}

constexpr double places = 8, n = 256, square = n * n;

}  // namespace

TEST_CASE("a triangle that is masked away is not read") {
  for (const char* op : {"gt.Tensor", "lt.Tensor", "ge.Tensor", "le.Tensor"}) {
    GraphBuilder g;
    const int x = g.input({8, 256, 256});
    const int y = fill(g, x, positions(g, 256, op), {8, 256, 256});
    CHECK(bytes(g, y) == doctest::Approx(4 * places * square * 1.5).epsilon(0.01));
  }
  GraphBuilder g;
  const int x = g.input({8, 256, 256});
  const int masked = fill(g, x, positions(g, 256, "gt.Tensor"), {8, 256, 256});
  const int y = g.node("_softmax.default", {V("self", masked), I("dim", -1), B("half_to_float", false)}, {8, 256, 256});
  CHECK(bytes(g, y) == doctest::Approx(4 * places * square * 1.5).epsilon(0.01));
}

TEST_CASE("what is used on both sides of a mask, or beside it, is read whole") {
  {
    GraphBuilder g;
    const int x = g.input({256, 256});
    const int mask = positions(g, 256, "gt.Tensor");
    const int other = g.node("exp.default", {V("self", x)}, {256, 256});
    const int y = g.node("where.self", {V("condition", mask), V("self", x), V("other", other)}, {256, 256});
    CHECK(bytes(g, y) == doctest::Approx(4 * square * 2).epsilon(0.01));
  }
  {
    GraphBuilder g;
    const int x = g.input({256, 256});
    const int masked = fill(g, x, positions(g, 256, "gt.Tensor"), {256, 256});
    const int y = g.node("add.Tensor", {V("self", masked), V("other", x)}, {256, 256});
    CHECK(bytes(g, y) == doctest::Approx(4 * square * 2));
  }
}

TEST_CASE("a mask closes no element that another place of it leaves open") {
  GraphBuilder g;
  const int x = g.input({256});  // the same for all rows: each is read by the rows below
  const int y = fill(g, x, positions(g, 256, "gt.Tensor"), {256, 256});
  CHECK(bytes(g, y) == doctest::Approx(4 * (n + square)));
}

TEST_CASE("a mask that comes from memory is open") {
  GraphBuilder g;
  const int x = g.input({256, 256}), mask = g.input({256, 256}, DType::boolean);
  CHECK(bytes(g, fill(g, x, mask, {256, 256})) == doctest::Approx(square * (4 + 1 + 4)));
}

TEST_CASE("of a table no more rows are read than places name, and no more than it has") {
  for (const std::int64_t rows : {50000, 40}) {
    GraphBuilder g;
    const int table = g.input({rows, 64}), i = g.input({100}, DType::i64);
    const int e = g.node("embedding.default", {V("weight", table), V("indices", i)}, {100, 64});
    const int y = g.node("rms_norm.default", {V("input", e), L("normalized_shape", {64})}, {100, 64});
    const double touched = std::min<double>(100, static_cast<double>(rows)) * 64 * 4;
    CHECK(bytes(g, y) == doctest::Approx(touched + 100 * 8 + 100 * 64 * 4));
  }
}

TEST_CASE("padding is not read, and what is cut off neither") {
  GraphBuilder g;
  const int x = g.input({100, 64});
  const int y = g.node("constant_pad_nd.default", {V("self", x), L("pad", {0, 0, 3, -20}), F("value", 0)}, {83, 64});
  CHECK(bytes(g, y) == doctest::Approx(4.0 * 64 * (80 + 83)));
}
