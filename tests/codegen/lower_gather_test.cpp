#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "codegen/graph_builder.h"
#include "codegen/interpreter.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"

using namespace planish;
using namespace planish::codegen;

namespace {

using Index = std::vector<std::int64_t>;

double real(int value, std::int64_t at) {
  return std::sin(static_cast<double>(at * 7 + value * 13 + 1));
}

/// Floating inputs hold `real`, integer ones the numbers given. Compares with f at every place of the output.
std::string check(GraphBuilder& g, int output, const std::map<int, std::vector<double>>& integers,
                  const std::function<double(const Index&)>& f) {
  const int outputs[] = {output};
  const auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  std::vector<std::vector<double>> data;
  for (const Input& input : kernel->inputs) {
    if (const auto given = integers.find(input.value); given != integers.end()) {
      data.push_back(given->second);
      continue;
    }
    data.emplace_back();
    for (std::int64_t i = 0; i < input.storage_elements; ++i) data.back().push_back(real(input.value, i));
  }
  const auto result = Interpreter(*kernel, data).run()[0];
  const auto& shape = g.graph.values[static_cast<std::size_t>(output)].shape;
  bool same = true;
  for (std::size_t i = 0; i < result.size(); ++i) {
    Index index(shape.size());
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    const double want = f(index);
    same = same && (std::isnan(want) ? std::isnan(result[i]) : std::abs(result[i] - want) <= 1e-9);
  }
  CHECK_MESSAGE(same, text(*kernel));
  return text(*kernel);
}

std::string refused(GraphBuilder& g, int output) {
  const int outputs[] = {output};
  const auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs);
  REQUIRE_FALSE(kernel.has_value());
  CHECK(kernel.error().kind.name() == "unsupported");
  return kernel.error().message;
}

ir::Arg indices(std::vector<std::optional<int>> ids) {
  return {"indices", ir::ValueList{std::move(ids)}};
}

}  // namespace

TEST_CASE("an embedding reads rows that its indices name, and NaN where they name none") {
  GraphBuilder g;
  const int table = g.input({5, 4}), i = g.input({3}, DType::i64);
  const int y = g.node("embedding.default", {V("weight", table), V("indices", i)}, {3, 4});
  const std::vector<double> rows{4, -1, 2};
  const auto kernel = check(g, y, {{i, rows}}, [&](const Index& at) {
    return at[0] == 1 ? NAN : real(0, static_cast<std::int64_t>(rows[static_cast<std::size_t>(at[0])]) * 4 + at[1]);
  });
  CHECK(kernel ==
        "pointwise space [3, 4] inner 0\n"
        "in0: i64 [3] strides [1]\n"
        "in1: f32 [5, 4] strides [4, 1]\n"
        "%0 = load i64 in0[d0]\n"
        "%1 = load f32 in1[d1 + 4*(%0 < 5)]\n"
        "out0: f32 [3, 4] strides [4, 1] [4*d0 + d1] = %1\n");
}

TEST_CASE("index_select and gather take one place each along their dim") {
  GraphBuilder g;
  const int x = g.input({3, 5}), i = g.input({2}, DType::i32), j = g.input({3, 4}, DType::i64);
  const int y = g.node("index_select.default", {V("self", x), I("dim", 1), V("index", i)}, {3, 2});
  check(g, y, {{i, {3, 0}}}, [&](const Index& at) { return real(x, at[0] * 5 + (at[1] == 0 ? 3 : 0)); });
  const int z = g.node("gather.default", {V("self", x), I("dim", -1), V("index", j)}, {3, 4});
  const std::vector<double> places{0, 1, 2, 3, 4, 4, 4, 4, 1, 0, 1, 0};
  check(g, z, {{j, places}}, [&](const Index& at) {
    return real(x, at[0] * 5 + static_cast<std::int64_t>(places[static_cast<std::size_t>(at[0] * 4 + at[1])]));
  });
}

TEST_CASE("advanced indices broadcast, wrap, and stand in front where they are apart") {
  GraphBuilder g;
  const int x = g.input({3, 4, 5}), i = g.input({2, 1}, DType::i64), j = g.input({3}, DType::i64);
  const std::map<int, std::vector<double>> given{{i, {-1, 1}}, {j, {0, -5, 3}}};
  const auto first = [](std::int64_t a) -> std::int64_t { return a == 0 ? 2 : 1; };
  const auto last = [](std::int64_t b) -> std::int64_t { return b == 2 ? 3 : 0; };
  const int apart = g.node("index.Tensor", {V("self", x), indices({i, std::nullopt, j})}, {2, 3, 4});
  check(g, apart, given, [&](const Index& at) { return real(x, first(at[0]) * 20 + at[2] * 5 + last(at[1])); });
  const int beside = g.node("index.Tensor", {V("self", x), indices({std::nullopt, i, j})}, {3, 2, 3});
  check(g, beside, {{i, {-1, 1}}, {j, {0, -5, 3}}},
        [&](const Index& at) { return real(x, at[0] * 20 + (at[1] == 0 ? 3 : 1) * 5 + last(at[2])); });
}

TEST_CASE("what is read at a place may be computed, viewed and folded") {
  GraphBuilder g;
  const int x = g.input({6, 4}), i = g.input({3}, DType::i64);
  const std::vector<double> rows{5, 0, 3};
  const auto row = [&](const Index& at) { return static_cast<std::int64_t>(rows[static_cast<std::size_t>(at[0])]); };
  // A place in a reshape of a transposed tensor: the coordinate goes through a division and a remainder.
  const int t = g.node("permute.default", {V("self", x), L("dims", {1, 0})}, {4, 6});
  const int r = g.node("clone.default", {V("self", t)}, {4, 6});
  const int w = g.node("view.default", {V("self", r), L("size", {8, 3})}, {8, 3});
  const int y = g.node("index_select.default", {V("self", w), I("dim", 0), V("index", i)}, {3, 3});
  check(g, y, {{i, {7, 0, 2}}}, [&](const Index& at) {
    const std::int64_t place[] = {7, 0, 2};
    const std::int64_t flat = place[at[0]] * 3 + at[1];
    return real(x, flat % 6 * 4 + flat / 6);
  });
  check(g, y, {{i, {8, -1, 2}}}, [&](const Index& at) { return at[0] < 2 ? NAN : real(x, (6 + at[1]) % 6 * 4 + 1); });
  // Σ over what was read, and a row's own place in its logarithm of softmax.
  const int e = g.node("embedding.default", {V("weight", x), V("indices", i)}, {3, 4});
  const int s = g.node("sum.dim_IntList", {V("self", e), L("dim", {1}), B("keepdim", false)}, {3});
  check(g, s, {{i, rows}}, [&](const Index& at) {
    double sum = 0;
    for (std::int64_t c = 0; c < 4; ++c) sum += real(x, row(at) * 4 + c);
    return sum;
  });
}

TEST_CASE("a class picked from log_softmax is one row kernel that stores a value a row") {
  GraphBuilder g;
  const int x = g.input({3, 7}), t = g.input({3, 1}, DType::i64);
  const int l = g.node("_log_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, {3, 7});
  const int p = g.node("gather.default", {V("self", l), I("dim", 1), V("index", t)}, {3, 1});
  const std::vector<double> classes{6, 2, 0};
  const auto kernel = check(g, p, {{t, classes}}, [&](const Index& at) {
    double sum = 0;
    for (std::int64_t c = 0; c < 7; ++c) sum += std::exp(real(x, at[0] * 7 + c));
    return real(x, at[0] * 7 + static_cast<std::int64_t>(classes[static_cast<std::size_t>(at[0])])) - std::log(sum);
  });
  CHECK(kernel.find("row space [3, 7] inner 1") == 0);
  CHECK(kernel.find("per row") != std::string::npos);
}

TEST_CASE("masks, and conditions or reductions over gathered places, stay library steps") {
  GraphBuilder g;
  const int x = g.input({6, 4}), m = g.input({6}, DType::boolean), i = g.input({3}, DType::i64);
  const int masked = g.node("index.Tensor", {V("self", x), indices({m})}, {2, 4});
  CHECK(refused(g, masked) == "an index by a mask");
  const int c = g.node("cat.default", {VS("tensors", {x, x}), I("dim", 0)}, {12, 4});
  const int pieces = g.node("index_select.default", {V("self", c), I("dim", 0), V("index", i)}, {3, 4});
  CHECK(refused(g, pieces) == "a condition on a gathered place");
  const int sums = g.node("sum.dim_IntList", {V("self", x), L("dim", {1}), B("keepdim", false)}, {6});
  const int folded = g.node("index_select.default", {V("self", sums), I("dim", 0), V("index", i)}, {3});
  CHECK(refused(g, folded) == "a reduction of gathered rows");
}

TEST_CASE("cross-entropy reads its logits once: a kernel of rows, and one that folds the batch") {
  GraphBuilder g;
  const int x = g.input({64, 512}), t = g.input({64}, DType::i64);
  const int l = g.node("_log_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, {64, 512});
  const int u = g.node("unsqueeze.default", {V("self", t), I("dim", 1)}, {64, 1}, DType::i64);
  const int p = g.node("gather.default", {V("self", l), I("dim", 1), V("index", u)}, {64, 1});
  const int q = g.node("squeeze.dims", {V("self", p), L("dim", {1})}, {64});
  const int n = g.node("neg.default", {V("self", q)}, {64});
  g.output(g.node("mean.default", {V("self", n)}, {}));
  const auto cut = partition(g.graph);
  REQUIRE(cut.has_value());
  REQUIRE(cut->regions.size() == 2);
  CHECK(cut->order.size() == 2);
  const double logits = 64 * 512 * 4;
  CHECK(cost(cut->regions[0].kernel).bytes < 1.01 * logits);
  CHECK(cost(cut->regions[1].kernel).bytes < 0.01 * logits);
}

TEST_CASE("a tensor that only lends its shape is not made") {
  GraphBuilder g;
  const int x = g.input({4, 5});
  const int e = g.node("empty_permuted.default", {L("size", {4, 5}), L("physical_layout", {0, 1})}, {4, 5});
  const int f = g.node("full_like.default", {V("self", e), F("fill_value", 2)}, {4, 5});
  g.output(g.node("sub.Tensor", {V("self", f), V("other", x), I("alpha", 1)}, {4, 5}));
  const auto cut = partition(g.graph);
  REQUIRE(cut.has_value());
  REQUIRE(cut->order.size() == 1);
  CHECK(cut->regions[0].inputs == std::vector<int>{x});
}

TEST_CASE("a gather from what was padded reads the gathered places, and the padding beside them") {
  GraphBuilder g;
  const int x = g.input({2, 3}), i = g.input({4}, DType::i64);
  const int padded = g.node("constant_pad_nd.default", {V("self", x), L("pad", {2, 0}), F("value", 7)}, {2, 5});
  const int y = g.node("index.Tensor", {V("self", padded), indices({i})}, {4, 5});
  const std::vector<double> rows{0, 1, 1, 0};
  check(g, y, {{i, rows}}, [&](const Index& at) {
    return at[1] < 2 ? 7 : real(0, static_cast<std::int64_t>(rows[static_cast<std::size_t>(at[0])]) * 3 + at[1] - 2);
  });
}
