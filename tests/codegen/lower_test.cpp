#include "codegen/lower/lower.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "codegen/graph_builder.h"
#include "codegen/interpreter.h"
#include "codegen/lower/builder.h"

using namespace planish;
using namespace planish::codegen;

namespace {

using Index = std::vector<std::int64_t>;

/// Distinct, irregular numbers.
double datum(std::size_t input, std::size_t at) {
  return std::sin(static_cast<double>(at * 7 + input * 13 + 1)) * 2;
}

/// Lowers everything, runs it, and compares each output element with f(logical index).
Kernel check(GraphBuilder& g, const std::vector<int>& outputs,
             const std::vector<std::function<double(const Index&)>>& expected, const std::vector<int>& given = {}) {
  const std::vector<bool> inside(g.graph.nodes.size(), true);
  auto kernel = lower(g.graph, inside, outputs, {}, given);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  std::vector<std::vector<double>> data;
  for (const Input& input : kernel->inputs) {
    std::vector<double> storage;
    for (std::size_t i = 0; i < static_cast<std::size_t>(input.storage_elements); ++i) {
      double d = datum(static_cast<std::size_t>(input.value), i);
      if (input.dtype == DType::boolean) d = d > 0;
      storage.push_back(d);
    }
    data.push_back(std::move(storage));
  }
  const auto result = Interpreter(*kernel, data).run();
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto& v = g.graph.values[static_cast<std::size_t>(outputs[o])];
    Index index(v.shape.size(), 0);
    bool more = true, same = true;
    while (more) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * v.strides[d];
      const double got = result[o][static_cast<std::size_t>(offset)], want = expected[o](index);
      same = same && std::abs(got - want) <= 1e-9 * (1 + std::abs(want));
      more = false;
      for (std::size_t d = index.size(); d-- > 0;) {
        if (++index[d] < v.shape[d]) {
          more = true;
          break;
        }
        index[d] = 0;
      }
    }
    CHECK_MESSAGE(same, text(*kernel));
  }
  return *kernel;
}

std::string refused(GraphBuilder& g, const std::vector<int>& outputs) {
  const auto kernel = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs);
  REQUIRE_FALSE(kernel.has_value());
  CHECK(kernel.error().kind.name() == "unsupported");
  return kernel.error().message;
}

auto at(int value, Shape strides) {
  return [=](const Index& i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < i.size(); ++d) offset += i[d] * strides[d];
    return datum(static_cast<std::size_t>(value), static_cast<std::size_t>(offset));
  };
}

}  // namespace

TEST_CASE("a pointwise chain with broadcasting merges what it can") {
  GraphBuilder g;
  const int x = g.input({2, 3, 4}), bias = g.input({4}), r = g.input({2, 3, 4});
  const int a = g.node("add.Tensor", {V("self", x), V("other", bias), I("alpha", 1)}, {2, 3, 4});
  const int b = g.node("gelu.default", {V("self", a), S("approximate", "none")}, {2, 3, 4});
  const int c = g.node("add.Tensor", {V("self", b), V("other", r), I("alpha", 2)}, {2, 3, 4});
  const auto k = check(g, {c}, {[](const Index& i) {
                         const auto flat = static_cast<std::size_t>(i[0] * 12 + i[1] * 4 + i[2]);
                         const double v = datum(0, flat) + datum(1, static_cast<std::size_t>(i[2]));
                         return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))) + 2 * datum(2, flat);
                       }});
  CHECK(text(k) ==
        "pointwise space [6, 4] inner 0\n"
        "in0: f32 [2, 3, 4] strides [12, 4, 1]\n"
        "in1: f32 [4] strides [1]\n"
        "in2: f32 [2, 3, 4] strides [12, 4, 1]\n"
        "%0 = load f32 in0[4*d0 + d1]\n"
        "%1 = load f32 in1[d1]\n"
        "%2 = add f32 %0 %1\n"
        "%3 = constant f32 0x1p-1\n"
        "%4 = mul f32 %2 %3\n"
        "%5 = constant f32 0x1.6a09e667f3bcdp-1\n"
        "%6 = mul f32 %2 %5\n"
        "%7 = erf f32 %6\n"
        "%8 = constant f32 0x1p+0\n"
        "%9 = add f32 %7 %8\n"
        "%10 = mul f32 %4 %9\n"
        "%11 = load f32 in2[4*d0 + d1]\n"
        "%12 = constant f32 0x1p+1\n"
        "%13 = mul f32 %11 %12\n"
        "%14 = add f32 %10 %13\n"
        "out0: f32 [2, 3, 4] strides [12, 4, 1] [4*d0 + d1] = %14\n");
}

TEST_CASE("softmax is a row with two phases") {
  GraphBuilder g;
  const int x = g.input({2, 3, 5});
  const int y = g.node("_softmax.default", {V("self", x), I("dim", -1), B("half_to_float", false)}, {2, 3, 5});
  const auto k = check(g, {y}, {[](const Index& i) {
                         double sum = 0;
                         const auto row = static_cast<std::size_t>(i[0] * 15 + i[1] * 5);
                         for (std::size_t j = 0; j < 5; ++j) sum += std::exp(datum(0, row + j));
                         return std::exp(datum(0, row + static_cast<std::size_t>(i[2]))) / sum;
                       }});
  CHECK(text(k) ==
        "row space [6, 5] inner 1\n"
        "in0: f32 [2, 3, 5] strides [15, 5, 1]\n"
        "%0 = load f32 in0[5*d0 + d1]\n"
        "%1 = reduced f32 r0\n"
        "%2 = sub f32 %0 %1\n"
        "%3 = exp f32 %2\n"
        "%4 = reduced f32 r1\n"
        "%5 = div f32 %3 %4\n"
        "r0 = max %0 in f32 phase 0\n"
        "r1 = sum %3 in f32 phase 1\n"
        "out0: f32 [2, 3, 5] strides [15, 5, 1] [5*d0 + d1] = %5\n");
}

TEST_CASE("layer norm with its statistics: outputs of a row and of all points together") {
  GraphBuilder g;
  const int x = g.input({4, 6}), w = g.input({6}), b = g.input({6});
  const int y = g.value({4, 6}), mean = g.value({4, 1}), rstd = g.value({4, 1});
  g.graph.nodes.push_back({"aten.native_layer_norm.default",
                           {V("input", x), L("normalized_shape", {6}), V("weight", w), V("bias", b), F("eps", 0.25)},
                           {y, mean, rstd}});
  const auto moments = [](std::int64_t row) {
    double m = 0, v = 0;
    for (std::int64_t j = 0; j < 6; ++j) m += datum(0, static_cast<std::size_t>(row * 6 + j)) / 6;
    for (std::int64_t j = 0; j < 6; ++j) v += std::pow(datum(0, static_cast<std::size_t>(row * 6 + j)) - m, 2) / 6;
    return std::pair(m, 1 / std::sqrt(v + 0.25));
  };
  const auto k = check(
      g, {y, mean, rstd},
      {[&](const Index& i) {
         const auto [m, s] = moments(i[0]);
         const auto j = static_cast<std::size_t>(i[1]);
         return (datum(0, static_cast<std::size_t>(i[0] * 6) + j) - m) * s * datum(1, j) + datum(2, j);
       },
       [&](const Index& i) { return moments(i[0]).first; }, [&](const Index& i) { return moments(i[0]).second; }});
  CHECK(k.reductions.size() == 2);
  CHECK(k.reductions[1].phase == 1);
  CHECK_FALSE(k.outputs[0].per_row);
  CHECK(k.outputs[1].per_row);
  CHECK(k.outputs[2].per_row);
}

TEST_CASE("a norm whose statistics are given is pointwise, whatever is folded of it") {
  const auto value = [](int id, std::int64_t at) {
    return datum(static_cast<std::size_t>(id), static_cast<std::size_t>(at));
  };
  {
    GraphBuilder g;
    const int x = g.input({2, 6, 4}), w = g.input({6});
    const int y = g.node(
        "native_group_norm.default",
        {V("input", x), V("weight", w), N("bias"), I("N", 2), I("C", 6), I("HxW", 4), I("group", 3), F("eps", 0.5)},
        {2, 6, 4});
    const int mean = g.value({2, 3}), rstd = g.value({2, 3});
    g.graph.nodes.back().outs = {y, mean, rstd};
    const auto normal = [&](std::int64_t n, std::int64_t c, std::int64_t i) {
      const std::int64_t row = n * 3 + c / 2;
      return (value(x, n * 24 + c * 4 + i) - value(mean, row)) * value(rstd, row) * value(w, c);
    };
    const auto k = check(g, {y}, {[&](const Index& i) { return normal(i[0], i[1], i[2]); }}, {mean, rstd});
    CHECK(k.anchor == Anchor::pointwise);
    // One of the two is not enough.
    CHECK(check(g, {mean}, {[&](const Index& i) {
                  double m = 0;
                  for (std::int64_t j = 0; j < 8; ++j) m += value(x, i[0] * 24 + i[1] * 8 + j) / 8;
                  return m;
                }},
                {rstd})
              .reductions.size() == 1);
    CHECK(lower(g.graph, {true}, std::vector<int>{y}, {}, std::vector<int>{mean})->reductions.size() == 2);
    const int sums = g.node("sum.dim_IntList", {V("self", y), L("dim", {2}), B("keepdim", false), N("dtype")}, {2, 6});
    const auto folded = check(g, {sums}, {[&](const Index& i) {
                                double sum = 0;
                                for (std::int64_t j = 0; j < 4; ++j) sum += normal(i[0], i[1], j);
                                return sum;
                              }},
                              {mean, rstd});
    CHECK(folded.reductions.size() == 1);
    CHECK(folded.inner_extent() == 4);
    const int tops = g.node("amax.default", {V("self", y), L("dim", {1}), B("keepdim", false)}, {2, 4});
    check(g, {tops}, {[&](const Index& i) {
            double top = normal(i[0], 0, i[1]);
            for (std::int64_t c = 1; c < 6; ++c) top = std::max(top, normal(i[0], c, i[1]));
            return top;
          }},
          {mean, rstd});
  }
  for (const bool rms : {false, true}) {
    GraphBuilder g;
    const int x = g.input({5, 2, 3}), w = g.input({2, 3});
    const std::vector<ir::Arg> args{V("input", x), L("normalized_shape", {2, 3}), V("weight", w), F("eps", 0.5)};
    const int y = g.node(rms ? "_fused_rms_norm.default" : "native_layer_norm.default", args, {5, 2, 3});
    std::vector<int> given{g.value({5, 1, 1})};
    if (!rms) given.push_back(g.value({5, 1, 1}));
    for (const int id : given) g.graph.nodes.back().outs.push_back(id);
    const int tops = g.node("amax.default", {V("self", y), L("dim", {0}), B("keepdim", false)}, {2, 3});
    const auto normal = [&](std::int64_t row, std::int64_t at) {
      const double centred = value(x, row * 6 + at) - (rms ? 0 : value(given[0], row));
      return centred * value(given.back(), row) * value(w, at);
    };
    const auto k = check(g, {tops}, {[&](const Index& i) {
                           double top = normal(0, i[0] * 3 + i[1]);
                           for (std::int64_t r = 1; r < 5; ++r) top = std::max(top, normal(r, i[0] * 3 + i[1]));
                           return top;
                         }},
                         given);
    CHECK(k.reductions.size() == 1);
  }
  GraphBuilder g;
  const int x = g.input({3, 2, 4});
  const int y = g.node("_native_batch_norm_legit.no_stats",
                       {V("input", x), N("weight"), N("bias"), B("training", true), F("momentum", 0.25), F("eps", 0.5)},
                       {3, 2, 4});
  const int mean = g.value({2}), rstd = g.value({2});
  g.graph.nodes.back().outs = {y, mean, rstd};
  const auto k = check(g, {y}, {[&](const Index& i) {
                         return (value(x, i[0] * 8 + i[1] * 4 + i[2]) - value(mean, i[1])) * value(rstd, i[1]);
                       }},
                       {mean, rstd});
  CHECK(k.anchor == Anchor::pointwise);
}

TEST_CASE("statistics count where they are as wide as what a kernel keeps") {
  const auto found = [](const std::string& op, DType input, DType kept, bool training = true) {
    GraphBuilder g;
    const int x = g.input({4, 6}, input);
    const int y = g.node(
        op,
        {V("input", x), L("normalized_shape", {6}), N("weight"), N("bias"), B("training", training), F("eps", 0.25)},
        {4, 6}, input);
    g.graph.nodes.back().outs = {y, g.value({4, 1}, kept), g.value({4, 1}, kept)};
    return statistics_of(g.graph, g.graph.nodes.back());
  };
  using Ids = std::vector<int>;
  CHECK(found("native_layer_norm.default", DType::f32, DType::f32) == Ids{2, 3});
  CHECK(found("native_group_norm.default", DType::f64, DType::f64) == Ids{2, 3});
  CHECK(found("_fused_rms_norm.default", DType::bf16, DType::f32) == Ids{2});
  CHECK(found("_native_batch_norm_legit_functional.default", DType::f32, DType::f32) == Ids{2, 3});
  CHECK(found("native_layer_norm.default", DType::bf16, DType::bf16).empty());
  CHECK(found("native_layer_norm.default", DType::f64, DType::f32).empty());
  CHECK(found("_native_batch_norm_legit_functional.default", DType::f32, DType::f32, false).empty());
  CHECK(found("_softmax.default", DType::f32, DType::f32).empty());
  GraphBuilder g;
  const int x = g.input({4, 6});
  g.node("native_layer_norm.default", {V("input", x), L("normalized_shape", {6}), F("eps", 0.25)}, {4, 6});
  CHECK(statistics_of(g.graph, g.graph.nodes.back()).empty());
  g.graph.nodes.back().outs.resize(3);  // named, but unused
  CHECK(statistics_of(g.graph, g.graph.nodes.back()).empty());
}

TEST_CASE("narrow statistics count where the graph has them in fp32, too") {
  // A layer norm in 16 bits, and behind it another one: of these data or others, converted to this dtype, so summed.
  const auto found = [](bool same_data, DType to, std::int64_t row, double eps, bool behind = true) {
    GraphBuilder g;
    const int x = g.input({4, 6, 5}, DType::f16), other = g.input({4, 6, 5}, DType::f16);
    const auto norm = [&](int of, DType dtype, std::int64_t length, double e) {
      const int y = g.node("native_layer_norm.default",
                           {V("input", of), L("normalized_shape", length == 5 ? Shape{5} : Shape{6, 5}), N("weight"),
                            N("bias"), F("eps", e)},
                           {4, 6, 5}, dtype);
      const Shape kept = length == 5 ? Shape{4, 6, 1} : Shape{4, 1, 1};
      g.graph.nodes.back().outs = {y, g.value(kept, dtype), g.value(kept, dtype)};
    };
    if (behind) norm(x, DType::f16, 5, 0.25);
    const int wide = g.node("_to_copy.default", {V("self", same_data ? x : other)}, {4, 6, 5}, to);
    norm(wide, to, row, eps);
    if (!behind) norm(x, DType::f16, 5, 0.25);
    return statistics_of(g.graph, behind ? g.graph.nodes.front() : g.graph.nodes.back());
  };
  using Ids = std::vector<int>;
  CHECK(found(true, DType::f32, 5, 0.25) == Ids{7, 8});
  CHECK(found(false, DType::f32, 5, 0.25).empty());
  CHECK(found(true, DType::bf16, 5, 0.25).empty());
  CHECK(found(true, DType::f32, 30, 0.25).empty());
  CHECK(found(true, DType::f32, 5, 0.5).empty());
  CHECK(found(true, DType::f32, 5, 0.25, false).empty());
}

TEST_CASE("a softmax whose maxima and sums are given folds nothing") {
  const auto value = [](int id, std::int64_t at) {
    return datum(static_cast<std::size_t>(id), static_cast<std::size_t>(at));
  };
  for (const bool logarithm : {false, true}) {
    GraphBuilder g;
    const int x = g.input({4, 3, 5});
    const int y = g.node(logarithm ? "_log_softmax.default" : "_softmax.default",
                         {V("self", x), I("dim", -2), B("half_to_float", false)}, {4, 3, 5});
    const int most = g.node("amax.default", {V("self", x), L("dim", {1}), B("keepdim", true)}, {4, 1, 5});
    const int shifted = g.node("sub.Tensor", {V("self", x), V("other", most), I("alpha", 1)}, {4, 3, 5});
    const int e = g.node("exp.default", {V("self", shifted)}, {4, 3, 5});
    const int sum =
        g.node("sum.dim_IntList", {V("self", e), L("dim", {-2}), B("keepdim", true), N("dtype")}, {4, 1, 5});
    CHECK(statistics_of(g.graph, g.graph.nodes.front()) == std::vector<int>{most, sum});
    if (logarithm) {  // of sums that these data make negative
      const auto k = lower(g.graph, std::vector<bool>(5, true), {{y}}, {}, {{most, sum}});
      REQUIRE(k.has_value());
      CHECK(k->anchor == Anchor::pointwise);
      CHECK(std::ranges::count(k->nodes, Op::log, &Node::op) == 1);
      CHECK(std::ranges::count(k->nodes, Op::exp, &Node::op) == 0);
      continue;
    }
    const auto k = check(g, {y}, {[&](const Index& i) {
                           const std::int64_t row = i[0] * 5 + i[2];
                           return std::exp(value(x, i[0] * 15 + i[1] * 5 + i[2]) - value(most, row)) / value(sum, row);
                         }},
                         {most, sum});
    CHECK(k.anchor == Anchor::pointwise);
  }
}

TEST_CASE("a softmax knows its maxima and sums from those of other rows and data") {
  // The chain behind it differs in one thing at a time.
  struct Chain {
    int maximum_of = 1, shifted = 1, less = 0;  // 0: of other data, 1: of the softmax's; 2: less another maximum
    std::int64_t rows = 1, summed = 1;
    bool keepdim = true;
    double alpha = 1;
    const char* function = "exp.default";
  };
  const auto found = [](const Chain& c) {
    GraphBuilder g;
    const int other = g.input({6, 6, 6}), x = g.input({6, 6, 6});
    g.node("_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, {6, 6, 6});
    const auto of = [&](int which) { return which == 1 ? x : other; };
    const Shape kept = c.keepdim ? Shape{6, 1, 6} : Shape{6, 6};
    const int a =
        g.node("amax.default", {V("self", of(c.maximum_of)), L("dim", {c.rows}), B("keepdim", c.keepdim)}, kept);
    const int b = g.node("amin.default", {V("self", x), L("dim", {1}), B("keepdim", true)}, kept);
    const int d = g.node("sub.Tensor", {V("self", of(c.shifted)), V("other", c.less == 2 ? b : a), F("alpha", c.alpha)},
                         {6, 6, 6});
    const int e = g.node(c.function, {V("self", d)}, {6, 6, 6});
    g.node("sum.dim_IntList", {V("self", e), L("dim", {c.summed}), B("keepdim", c.keepdim), N("dtype")}, kept);
    return !statistics_of(g.graph, g.graph.nodes.front()).empty();
  };
  CHECK(found({}));
  CHECK_FALSE(found({.maximum_of = 0}));
  CHECK_FALSE(found({.shifted = 0}));
  CHECK_FALSE(found({.less = 2}));
  CHECK_FALSE(found({.rows = 2}));
  CHECK_FALSE(found({.summed = 0}));
  CHECK_FALSE(found({.keepdim = false}));
  CHECK_FALSE(found({.alpha = 2}));
  CHECK_FALSE(found({.function = "exp2.default"}));
}

TEST_CASE("rms norm written by hand becomes one reduction") {
  GraphBuilder g;
  const int x = g.input({3, 8}), w = g.input({8});
  const int p = g.node("pow.Tensor_Scalar", {V("self", x), I("exponent", 2)}, {3, 8});
  const int m = g.node("mean.dim", {V("self", p), L("dim", {-1}), B("keepdim", true), N("dtype")}, {3, 1});
  const int e = g.node("add.Tensor", {V("self", m), F("other", 1e-6), I("alpha", 1)}, {3, 1});
  const int r = g.node("rsqrt.default", {V("self", e)}, {3, 1});
  const int n = g.node("mul.Tensor", {V("self", x), V("other", r)}, {3, 8});
  const int y = g.node("mul.Tensor", {V("self", n), V("other", w)}, {3, 8});
  const auto k = check(g, {y}, {[](const Index& i) {
                         double sum = 0;
                         for (std::size_t j = 0; j < 8; ++j)
                           sum += std::pow(datum(0, static_cast<std::size_t>(i[0] * 8) + j), 2);
                         return datum(0, static_cast<std::size_t>(i[0] * 8 + i[1])) / std::sqrt(sum / 8 + 1e-6) *
                                datum(1, static_cast<std::size_t>(i[1]));
                       }});
  CHECK(k.reductions.size() == 1);
  CHECK(text(k).find("%1 = mul f32 %0 %0") != std::string::npos);
}

TEST_CASE("a transpose becomes strides") {
  GraphBuilder g;
  const int x = g.input({3, 4});
  const int t = g.node("permute.default", {V("self", x), L("dims", {1, 0})}, {4, 3}, DType::f32, {1, 4});
  const int y = g.node("mul.Tensor", {V("self", t), F("other", 3)}, {4, 3});
  const auto k =
      check(g, {y}, {[](const Index& i) { return 3 * datum(0, static_cast<std::size_t>(i[1] * 4 + i[0])); }});
  CHECK(text(k).find("%0 = load f32 in0[d0 + 4*d1]") != std::string::npos);
}

TEST_CASE("reshapes split variables until indices are affine") {
  GraphBuilder g;
  const int x = g.input({4, 6}), s = g.input({2, 12});
  const int v = g.node("view.default", {V("self", x), L("size", {3, 8})}, {3, 8});
  const int t = g.node("permute.default", {V("self", v), L("dims", {1, 0})}, {8, 3}, DType::f32, {1, 8});
  const int c = g.node("clone.default", {V("self", t), N("memory_format")}, {8, 3});
  const int w = g.node("view.default", {V("self", c), L("size", {2, 12})}, {2, 12});
  const int y = g.node("add.Tensor", {V("self", w), V("other", s), I("alpha", 1)}, {2, 12});
  const auto k = check(g, {y}, {[](const Index& i) {
                         const std::int64_t flat = i[0] * 12 + i[1];
                         return datum(0, static_cast<std::size_t>((flat % 3) * 8 + flat / 3)) +
                                datum(1, static_cast<std::size_t>(flat));
                       }});
  for (const Node& node : k.nodes) CHECK(node.index.is_affine());
}

TEST_CASE("cat, stack and pad are predicated loads") {
  GraphBuilder g;
  const int a = g.input({2, 3}), b = g.input({2, 2});
  const int c = g.node("cat.default", {VS("tensors", {a, b}), I("dim", 1)}, {2, 5});
  const int p = g.node("constant_pad_nd.default", {V("self", c), L("pad", {1, 2, 0, 1}), F("value", 7)}, {3, 8});
  const auto k = check(g, {p}, {[](const Index& i) {
                         if (i[0] > 1 || i[1] < 1 || i[1] > 5) return 7.0;
                         const std::int64_t j = i[1] - 1;
                         return j < 3 ? datum(0, static_cast<std::size_t>(i[0] * 3 + j))
                                      : datum(1, static_cast<std::size_t>(i[0] * 2 + j - 3));
                       }});
  for (const Node& node : k.nodes) {
    if (node.op == Op::load) CHECK_FALSE(node.where.empty());
  }
  GraphBuilder h;
  const int x = h.input({3}), y = h.input({3});
  const int s = h.node("stack.default", {VS("tensors", {x, y}), I("dim", 1)}, {3, 2});
  check(h, {s}, {[](const Index& i) { return datum(static_cast<std::size_t>(i[1]), static_cast<std::size_t>(i[0])); }});
  GraphBuilder q;
  const int z = q.input({4});
  const int padded = q.node("constant_pad_nd.default", {V("self", z), L("pad", {2, -1}), F("value", 1)}, {5});
  const auto kernel = check(
      q, {padded}, {[](const Index& i) { return i[0] < 2 ? 1.0 : datum(0, static_cast<std::size_t>(i[0] - 2)); }});
  CHECK(text(kernel).find("%0 = load f32 in0[d0 - 2] where [0 <= d0 - 2 < 4] else 0x1p+0") != std::string::npos);
}

TEST_CASE("slices, flips, selects, rolls and repeats compose") {
  GraphBuilder g;
  const int x = g.input({10, 6});
  const int s1 = g.node("slice.Tensor", {V("self", x), I("dim", 0), I("start", 1), I("end", 9), I("step", 2)}, {4, 6},
                        DType::f32, {12, 1});
  const int s2 =
      g.node("slice.Tensor", {V("self", s1), I("dim", 0), I("start", -3), I("end", 9223372036854775807), I("step", 1)},
             {3, 6}, DType::f32, {12, 1});
  const int f = g.node("flip.default", {V("self", s2), L("dims", {0})}, {3, 6});
  const int r = g.node("roll.default", {V("self", f), L("shifts", {2}), L("dims", {1})}, {3, 6});
  const int e = g.node("select.int", {V("self", r), I("dim", 0), I("index", -1)}, {6}, DType::f32, {1});
  const int q = g.node("repeat.default", {V("self", e), L("repeats", {2})}, {12});
  check(g, {q}, {[](const Index& i) {
          const std::int64_t column = ((i[0] % 6) - 2 + 6) % 6;
          return datum(0, static_cast<std::size_t>(3 * 6 + column));  // flip puts s2[0] = x[3] last
        }});
}

TEST_CASE("masks broadcast, triangles are predicates") {
  GraphBuilder g;
  const int x = g.input({2, 4, 4}), m = g.input({4, 1}, DType::boolean);
  const int f = g.node("masked_fill.Scalar", {V("self", x), V("mask", m), F("value", -5)}, {2, 4, 4});
  const int t = g.node("tril.default", {V("self", f), I("diagonal", 0)}, {2, 4, 4});
  check(g, {t}, {[](const Index& i) {
          if (i[2] > i[1]) return 0.0;
          return datum(1, static_cast<std::size_t>(i[1])) > 0
                     ? -5.0
                     : datum(0, static_cast<std::size_t>(i[0] * 16 + i[1] * 4 + i[2]));
        }});
}

TEST_CASE("group norm splits the channels") {
  GraphBuilder g;
  const int x = g.input({2, 6, 4}), w = g.input({6});
  const int y = g.node("group_norm.default",
                       {V("input", x), I("num_groups", 3), V("weight", w), N("bias"), F("eps", 0.5)}, {2, 6, 4});
  const auto k = check(g, {y}, {[](const Index& i) {
                         double m = 0, v = 0;
                         const std::int64_t first = i[0] * 24 + i[1] / 2 * 8;
                         for (std::int64_t j = 0; j < 8; ++j) m += datum(0, static_cast<std::size_t>(first + j)) / 8;
                         for (std::int64_t j = 0; j < 8; ++j)
                           v += std::pow(datum(0, static_cast<std::size_t>(first + j)) - m, 2) / 8;
                         return (datum(0, static_cast<std::size_t>(i[0] * 24 + i[1] * 4 + i[2])) - m) /
                                std::sqrt(v + 0.5) * datum(1, static_cast<std::size_t>(i[1]));
                       }});
  CHECK(k.outer_extent() == 6);
  CHECK(k.inner_extent() == 8);
}

TEST_CASE("batch norm in training gives the output, its statistics and the running ones from one kernel") {
  GraphBuilder g;
  const int x = g.input({3, 2, 4}), w = g.input({2}), b = g.input({2}), mean = g.input({2}), var = g.input({2});
  const int y = g.node("_native_batch_norm_legit_functional.default",
                       {V("input", x), V("weight", w), V("bias", b), V("running_mean", mean), V("running_var", var),
                        B("training", true), F("momentum", 0.25), F("eps", 0.5)},
                       {3, 2, 4});
  for (int i = 0; i < 4; ++i) g.graph.nodes.back().outs.push_back(g.value({2}));
  const int relu = g.node("relu.default", {V("self", y)}, {3, 2, 4});
  const auto at = [](std::int64_t n, std::int64_t c, std::int64_t i) {
    return datum(0, static_cast<std::size_t>(n * 8 + c * 4 + i));
  };
  const auto mean_of = [&](std::int64_t c) {
    double m = 0;
    for (int k = 0; k < 12; ++k) m += at(k / 4, c, k % 4) / 12;
    return m;
  };
  const auto squares = [&](std::int64_t c) {
    double q = 0;
    for (int k = 0; k < 12; ++k) q += std::pow(at(k / 4, c, k % 4) - mean_of(c), 2);
    return q;
  };
  const auto value = [](int input, std::int64_t c) { return datum(input, static_cast<std::size_t>(c)); };
  const auto k =
      check(g, {relu, y + 1, y + 2, y + 3, y + 4},
            {[&](const Index& i) {
               const double r = 1 / std::sqrt(squares(i[1]) / 12 + 0.5);
               return std::max(0.0, (at(i[0], i[1], i[2]) - mean_of(i[1])) * r * value(1, i[1]) + value(2, i[1]));
             },
             [&](const Index& i) { return mean_of(i[0]); },
             [&](const Index& i) { return 1 / std::sqrt(squares(i[0]) / 12 + 0.5); },
             [&](const Index& i) { return 0.75 * value(3, i[0]) + 0.25 * mean_of(i[0]); },
             [&](const Index& i) { return 0.75 * value(4, i[0]) + 0.25 * squares(i[0]) / 11; }});
  CHECK(k.outer_extent() == 2);
  CHECK(k.inner_extent() == 12);
  CHECK(k.reductions.size() == 2);
}

TEST_CASE("reductions: every kind against a loop") {
  struct Case {
    std::string op;
    std::vector<ir::Arg> args;
    std::function<double(const std::vector<double>&)> f;
  };
  const auto sum = [](const std::vector<double>& v, auto f) {
    double s = 0;
    for (const double x : v) s += f(x);
    return s;
  };
  const auto mean = [&](const std::vector<double>& v) {
    return sum(v, [](double x) { return x; }) / static_cast<double>(v.size());
  };
  const auto squares = [&](const std::vector<double>& v) {
    const double m = mean(v);
    return sum(v, [m](double x) { return (x - m) * (x - m); });
  };
  const std::vector<Case> cases{
      {"sum.dim_IntList", {L("dim", {1}), B("keepdim", false), N("dtype")}, [&](const auto& v) { return mean(v) * 5; }},
      {"mean.dim", {L("dim", {-1}), B("keepdim", false), N("dtype")}, mean},
      {"amax.default",
       {L("dim", {1}), B("keepdim", false)},
       [](const auto& v) { return *std::max_element(v.begin(), v.end()); }},
      {"amin.default",
       {L("dim", {1}), B("keepdim", false)},
       [](const auto& v) { return *std::min_element(v.begin(), v.end()); }},
      {"prod.dim_int",
       {I("dim", 1), B("keepdim", false), N("dtype")},
       [](const auto& v) { return v[0] * v[1] * v[2] * v[3] * v[4]; }},
      {"var.correction",
       {L("dim", {1}), I("correction", 1), B("keepdim", false)},
       [&](const auto& v) { return squares(v) / 4; }},
      {"std.correction",
       {L("dim", {1}), I("correction", 0), B("keepdim", false)},
       [&](const auto& v) { return std::sqrt(squares(v) / 5); }},
      {"linalg_vector_norm.default",
       {I("ord", 2), L("dim", {1}), B("keepdim", false), N("dtype")},
       [&](const auto& v) { return std::sqrt(sum(v, [](double x) { return x * x; })); }},
      {"linalg_vector_norm.default",
       {F("ord", 3), L("dim", {1}), B("keepdim", false), N("dtype")},
       [&](const auto& v) { return std::cbrt(sum(v, [](double x) { return std::pow(std::abs(x), 3); })); }},
      {"linalg_vector_norm.default",
       {F("ord", INFINITY), L("dim", {1}), B("keepdim", false), N("dtype")},
       [](const auto& v) {
         double m = 0;
         for (const double x : v) m = std::max(m, std::abs(x));
         return m;
       }},
      {"logsumexp.default", {L("dim", {1}), B("keepdim", false)}, [&](const auto& v) {
         return std::log(sum(v, [](double x) { return std::exp(x); }));
       }}};
  for (const Case& c : cases) {
    GraphBuilder g;
    const int x = g.input({3, 5});
    std::vector<ir::Arg> args{V("self", x)};
    args.insert(args.end(), c.args.begin(), c.args.end());
    const int y = g.node(c.op, args, {3});
    CAPTURE(c.op);
    const auto k = check(g, {y}, {[&](const Index& i) {
                           std::vector<double> row;
                           for (std::size_t j = 0; j < 5; ++j)
                             row.push_back(datum(0, static_cast<std::size_t>(i[0] * 5) + j));
                           return c.f(row);
                         }});
    CHECK(k.outputs[0].per_row);
  }
}

TEST_CASE("reductions over any dims, of any layout") {
  // [4, 3, 5, 6] in three layouts; every set of dims.
  const Shape shape{4, 3, 5, 6};
  const std::vector<Shape> layouts{{90, 30, 6, 1}, {90, 1, 18, 3}, {1, 4, 72, 12}};
  for (const Shape& strides : layouts) {
    for (unsigned set = 1; set < 16; ++set) {
      std::vector<std::int64_t> dims;
      Shape kept, wide = shape;
      for (std::size_t d = 0; d < 4; ++d) {
        if ((set >> d) & 1) {
          dims.push_back(static_cast<std::int64_t>(d));
          wide[d] = 1;
        } else {
          kept.push_back(shape[d]);
        }
      }
      const auto row = [&](const Index& i) {
        // The elements folded into result element i, in the order of the dims.
        std::vector<double> out;
        Index at(4, 0);
        for (at[0] = 0; at[0] < 4; ++at[0]) {
          for (at[1] = 0; at[1] < 3; ++at[1]) {
            for (at[2] = 0; at[2] < 5; ++at[2]) {
              for (at[3] = 0; at[3] < 6; ++at[3]) {
                bool mine = true;
                std::size_t k = 0;
                for (std::size_t d = 0; d < 4; ++d) {
                  if (!((set >> d) & 1)) mine = mine && at[d] == i[k++];
                }
                std::int64_t offset = 0;
                for (std::size_t d = 0; d < 4; ++d) offset += at[d] * strides[d];
                if (mine) out.push_back(datum(0, static_cast<std::size_t>(offset)));
              }
            }
          }
        }
        return out;
      };
      GraphBuilder g;
      const int x = g.input(shape, DType::f32, strides);
      const int e = g.node("exp.default", {V("self", x)}, shape, DType::f32, strides);
      const int s = g.node("sum.dim_IntList", {V("self", e), L("dim", dims), B("keepdim", false), N("dtype")}, kept);
      const int r = g.node("sqrt.default", {V("self", s)}, kept);
      const int m = g.node("amax.default", {V("self", x), L("dim", dims), B("keepdim", false)}, kept);
      const auto k = check(g, {r, m},
                           {[&](const Index& i) {
                              double sum = 0;
                              for (const double v : row(i)) sum += std::exp(v);
                              return std::sqrt(sum);
                            },
                            [&](const Index& i) { return std::ranges::max(row(i)); }});
      CHECK(k.reductions.size() == 2);
      CHECK(k.outputs[0].per_row);
      // One variable runs through memory, and the emitters find it last among the outer or last among the inner ones.
      const std::size_t n = k.space.extents.size(), outer = n - static_cast<std::size_t>(k.inner);
      const ir::IndexExpr& load = k.nodes[0].op == Op::load ? k.nodes[0].index : k.nodes[1].index;
      const bool along = load.coefficient_of(static_cast<int>(n) - 1) == 1;
      const bool across = outer > 0 && load.coefficient_of(static_cast<int>(outer) - 1) == 1;
      CHECK_MESSAGE(along != across, text(k));

      GraphBuilder h;
      const int y = h.input(shape, DType::f32, strides);
      const int var =
          h.node("var.correction", {V("self", y), L("dim", dims), I("correction", 0), B("keepdim", true)}, wide);
      const int centred =
          h.node("sub.Tensor", {V("self", y), V("other", var), I("alpha", 1)}, shape, DType::f32, strides);
      check(h, {centred}, {[&](const Index& i) {
              Index outer_index;
              for (std::size_t d = 0; d < 4; ++d) {
                if (!((set >> d) & 1)) outer_index.push_back(i[d]);
              }
              const auto v = row(outer_index);
              double mean = 0, squares = 0;
              for (const double one : v) mean += one / static_cast<double>(v.size());
              for (const double one : v) squares += (one - mean) * (one - mean);
              std::int64_t offset = 0;
              for (std::size_t d = 0; d < 4; ++d) offset += i[d] * strides[d];
              return datum(0, static_cast<std::size_t>(offset)) - squares / static_cast<double>(v.size());
            }});
    }
  }
}

TEST_CASE("softmax of a scalar is one where the scalar is finite, and NaN elsewhere") {
  for (const auto& [op, finite] : {std::pair{"_softmax.default", 1.0}, std::pair{"_log_softmax.default", 0.0}}) {
    GraphBuilder g;
    const int x = g.input({});
    const int y = g.node(op, {V("self", x), I("dim", 0), B("half_to_float", false)}, {});
    const auto kernel = lower(g.graph, std::vector<bool>{true}, std::vector<int>{y});
    REQUIRE(kernel.has_value());
    CHECK(Interpreter(*kernel, {{3.5}}).run()[0][0] == finite);
    CHECK(std::isnan(Interpreter(*kernel, {{HUGE_VAL}}).run()[0][0]));
  }
}

TEST_CASE("softmax over the channels of an image and the norm of a leading dim are columns") {
  GraphBuilder g;
  const int x = g.input({2, 5, 3, 4});
  const int y = g.node("_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, {2, 5, 3, 4});
  const auto k = check(g, {y}, {[](const Index& i) {
                         double sum = 0;
                         const auto at = [&](std::int64_t c) {
                           return std::exp(datum(0, static_cast<std::size_t>(i[0] * 60 + c * 12 + i[2] * 4 + i[3])));
                         };
                         for (std::int64_t c = 0; c < 5; ++c) sum += at(c);
                         return at(i[1]) / sum;
                       }});
  CHECK(k.space.extents == std::vector<std::int64_t>{2, 12, 5});
  CHECK(k.inner == 1);
  GraphBuilder h;
  const int a = h.input({6, 7});
  const int n = h.node("linalg_vector_norm.default",
                       {V("self", a), I("ord", 2), L("dim", {0}), B("keepdim", true), N("dtype")}, {1, 7});
  const int q = h.node("div.Tensor", {V("self", a), V("other", n)}, {6, 7});
  check(h, {q}, {[](const Index& i) {
          double sum = 0;
          const auto at = [&](std::int64_t r) { return datum(0, static_cast<std::size_t>(r * 7 + i[1])); };
          for (std::int64_t r = 0; r < 6; ++r) sum += at(r) * at(r);
          return at(i[0]) / std::sqrt(sum);
        }});
}

TEST_CASE("distances and counts are folds as well") {
  GraphBuilder g;
  const int x = g.input({3, 5}), y = g.input({3, 5});
  const int d =
      g.node("pairwise_distance.default", {V("x1", x), V("x2", y), F("p", 1), F("eps", 0.5), B("keepdim", false)}, {3});
  check(g, {d}, {[](const Index& i) {
          double sum = 0;
          for (std::int64_t j = 0; j < 5; ++j) {
            const auto at = static_cast<std::size_t>(i[0] * 5 + j);
            sum += std::abs(datum(0, at) - datum(1, at) + 0.5);
          }
          return sum;
        }});
  GraphBuilder h;
  const int flags = h.input({4, 6}, DType::boolean);
  const int n = h.node("count_nonzero.dim_IntList", {V("self", flags), L("dim", {0})}, {6}, DType::i64);
  check(h, {n}, {[](const Index& i) {
          double count = 0;
          for (std::int64_t r = 0; r < 4; ++r) count += datum(0, static_cast<std::size_t>(r * 6 + i[0])) > 0;
          return count;
        }});
  GraphBuilder m;
  const int z = m.input({4, 6});
  const int low = m.value({6}), high = m.value({6});
  m.graph.nodes.push_back({"aten.aminmax.default", {V("self", z), I("dim", 0), B("keepdim", false)}, {low, high}});
  const int some = m.node("nansum.default", {V("self", z), L("dim", {0}), B("keepdim", false), N("dtype")}, {6});
  const auto column = [](const Index& i) {
    std::vector<double> out;
    for (std::int64_t r = 0; r < 4; ++r) out.push_back(datum(0, static_cast<std::size_t>(r * 6 + i[0])));
    return out;
  };
  check(m, {low, high, some},
        {[&](const Index& i) { return std::ranges::min(column(i)); },
         [&](const Index& i) { return std::ranges::max(column(i)); },
         [&](const Index& i) {
           double sum = 0;
           for (const double v : column(i)) sum += v;
           return sum;
         }});
}

TEST_CASE("positions of extremes count over the reduced dims in their own order") {
  for (const bool largest : {true, false}) {
    const std::string max = largest ? "max" : "min";
    const auto better = [&](double a, double b) { return largest ? a > b : a < b; };
    GraphBuilder g;
    const int x = g.input({3, 4, 5}, DType::f32, {1, 15, 3});
    const auto at = [](std::int64_t a, std::int64_t b, std::int64_t c) {
      return datum(0, static_cast<std::size_t>(a + 15 * b + 3 * c));
    };
    const int all = g.node("arg" + max + ".default", {V("self", x), N("dim"), B("keepdim", false)}, {}, DType::i64);
    const auto k = check(g, {all}, {[&](const Index&) {
                           double best = at(0, 0, 0);
                           std::int64_t where = 0;
                           for (std::int64_t i = 0; i < 60; ++i) {
                             const double v = at(i / 20, i / 5 % 4, i % 5);
                             if (better(v, best)) best = v, where = i;
                           }
                           return static_cast<double>(where);
                         }});
    CHECK(k.reductions[0].at >= 0);
    GraphBuilder h;
    const int y = h.input({3, 4, 5}, DType::f32, {1, 15, 3});
    const int value = h.value({3, 5}), index = h.value({3, 5}, DType::i64);
    h.graph.nodes.push_back({"aten." + max + ".dim", {V("self", y), I("dim", 1), B("keepdim", false)}, {value, index}});
    const auto find = [&](const Index& i) {
      std::int64_t where = 0;
      for (std::int64_t b = 1; b < 4; ++b) {
        if (better(at(i[0], b, i[1]), at(i[0], where, i[1]))) where = b;
      }
      return where;
    };
    check(h, {value, index},
          {[&](const Index& i) { return at(i[0], find(i), i[1]); },
           [&](const Index& i) { return static_cast<double>(find(i)); }});
  }
}

TEST_CASE("activations against their formulas") {
  struct Case {
    std::string op;
    std::vector<ir::Arg> args;
    std::function<double(double)> f;
  };
  const std::vector<Case> cases{
      {"silu.default", {}, [](double x) { return x / (1 + std::exp(-x)); }},
      {"mish.default", {}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"softplus.default",
       {F("beta", 2), F("threshold", 1)},
       [](double x) { return 2 * x > 1 ? x : std::log1p(std::exp(2 * x)) / 2; }},
      {"hardswish.default", {}, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }},
      {"elu.default",
       {F("alpha", 2), I("scale", 1), I("input_scale", 1)},
       [](double x) { return x > 0 ? x : 2 * std::expm1(x); }},
      {"leaky_relu.default", {F("negative_slope", 0.1)}, [](double x) { return x > 0 ? x : 0.1 * x; }},
      {"gelu.default",
       {S("approximate", "tanh")},
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {"hardtanh.default",
       {F("min_val", -0.5), F("max_val", 0.25)},
       [](double x) { return std::clamp(x, -0.5, 0.25); }},
      {"clamp.default", {N("min"), F("max", 0.25)}, [](double x) { return std::min(x, 0.25); }},
      {"softshrink.default", {F("lambd", 0.5)}, [](double x) { return x > 0.5    ? x - 0.5
                                                                      : x < -0.5 ? x + 0.5
                                                                                 : 0; }},
      {"rsub.Scalar", {F("other", 3), F("alpha", 2)}, [](double x) { return 3 - 2 * x; }},
      {"log_sigmoid_forward.default", {}, [](double x) { return -std::log1p(std::exp(-x)); }},
      {"round.default", {}, [](double x) { return std::nearbyint(x); }},
      {"round.decimals", {I("decimals", 1)}, [](double x) { return std::nearbyint(x * 10) / 10; }},
      {"round.decimals", {I("decimals", -1)}, [](double x) { return std::nearbyint(x / 10) * 10; }},
      {"pow.Tensor_Scalar", {I("exponent", 3)}, [](double x) { return x * x * x; }}};
  for (const Case& c : cases) {
    GraphBuilder g;
    const int x = g.input({7});
    std::vector<ir::Arg> args{V("self", x)};
    args.insert(args.end(), c.args.begin(), c.args.end());
    const int y = g.node(c.op, args, {7});
    CAPTURE(c.op);
    check(g, {y}, {[&](const Index& i) { return c.f(datum(0, static_cast<std::size_t>(i[0]))); }});
  }
}

TEST_CASE("dtypes: integer operands, promotion in comparisons, explicit rounding") {
  GraphBuilder g;
  const int i = g.input({4}, DType::i64), h = g.input({4}, DType::bf16);
  const int c = g.node("lt.Scalar", {V("self", i), F("other", 0.5)}, {4}, DType::boolean);
  const int r = g.node("_to_copy.default", {V("self", h)}, {4}, DType::f32);
  const int s = g.node("mul.Tensor", {V("self", r), F("other", 2)}, {4}, DType::f32);
  const int d = g.node("_to_copy.default", {V("self", s)}, {4}, DType::bf16);
  const int e = g.node("add.Tensor", {V("self", d), V("other", h), I("alpha", 1)}, {4}, DType::bf16);
  const int w = g.node("where.self", {V("condition", c), V("self", e), V("other", h)}, {4}, DType::bf16);
  const auto k = lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), std::vector<int>{w});
  REQUIRE(k.has_value());
  const std::string t = text(*k);
  CHECK(t.find("cast f32 %0") != std::string::npos);  // i64 compared in f32
  CHECK(t.find("rounds") != std::string::npos);
  for (const Node& node : k->nodes) {
    const bool half = node.dtype == DType::bf16;
    CHECK((!half || node.op == Op::load || node.rounds));
  }
}

TEST_CASE("what does not fit one kernel is refused with the reason") {
  GraphBuilder h;
  const int a = h.input({4, 6}), b = h.input({5});
  const int y = h.node("relu.default", {V("self", a)}, {4, 6}), z = h.node("relu.default", {V("self", b)}, {5});
  CHECK(refused(h, {y, z}).find("spaces") != std::string::npos);
  GraphBuilder s;
  const int q = s.input({4, 4});
  const int soft = s.node("_softmax.default", {V("self", q), I("dim", -1), B("half_to_float", false)}, {4, 4});
  const int turned = s.node("permute.default", {V("self", soft), L("dims", {1, 0})}, {4, 4}, DType::f32, {1, 4});
  const int both = s.node("add.Tensor", {V("self", soft), V("other", turned), I("alpha", 1)}, {4, 4});
  CHECK(refused(s, {both}).find("row") != std::string::npos);
  GraphBuilder o;
  const int u = o.input({4});
  CHECK(refused(o, {o.node("expand.default", {V("self", u), L("size", {3, 4})}, {3, 4}, DType::f32, {0, 1})})
            .find("overlaps") != std::string::npos);
}

TEST_CASE("an input in permuted layout is swept along its contiguous dim") {
  GraphBuilder g;
  const int x = g.input({2, 3, 4}, DType::f32, {12, 1, 3});
  const int y = g.node("_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, {2, 3, 4},
                       DType::f32, {12, 1, 3});
  const auto k = check(g, {y}, {[](const Index& i) {
                         double sum = 0;
                         for (std::int64_t j = 0; j < 3; ++j)
                           sum += std::exp(datum(0, static_cast<std::size_t>(i[0] * 12 + j + i[2] * 3)));
                         return std::exp(datum(0, static_cast<std::size_t>(i[0] * 12 + i[1] + i[2] * 3))) / sum;
                       }});
  CHECK(k.outer_extent() == 8);
  CHECK(k.space.extents.size() == 2);
  CHECK(at(0, {12, 1, 3})({1, 2, 3}) == datum(0, 23));
}

TEST_CASE("a Python integer wraps to the dtype of the tensor it meets") {
  Builder b;
  CHECK(b.at(b.integer(DType::u8, -3)).bits == 253);
  CHECK(b.at(b.integer(DType::i8, 200)).bits == -56);
  CHECK(b.at(b.constant(DType::u8, -1)).bits == 255);
  CHECK(b.at(b.integer(DType::i64, -3)).bits == -3);
}

TEST_CASE("booleans are ordered by logic, whatever bits stand for true") {
  GraphBuilder g;
  const int x = g.input({4, 6}, DType::boolean), y = g.input({4, 6}, DType::boolean);
  const auto value = [](int input, const Index& i) {
    return datum(static_cast<std::size_t>(input), static_cast<std::size_t>(i[0] * 6 + i[1])) > 0;
  };
  for (const char* op : {"lt", "le", "gt", "ge"}) {
    const int out = g.node(std::string(op) + ".Tensor", {V("self", x), V("other", y)}, {4, 6}, DType::boolean);
    const std::string name = op;
    const Kernel kernel = check(g, {out}, {[&](const Index& i) {
                                  const bool a = value(x, i), b = value(y, i);
                                  return name == "lt" ? a < b : name == "le" ? a <= b : name == "gt" ? a > b : a >= b;
                                }});
    for (const Node& node : kernel.nodes) {
      CHECK_FALSE((node.op == Op::lt || node.op == Op::le || node.op == Op::gt || node.op == Op::ge));
    }
  }
}

TEST_CASE("a sum of booleans takes the second where alpha does") {
  for (const std::int64_t alpha : {0, 1, 3}) {
    GraphBuilder g;
    const int x = g.input({4, 6}, DType::boolean), y = g.input({4, 6}, DType::boolean);
    const int out = g.node("add.Tensor", {V("self", x), V("other", y), I("alpha", alpha)}, {4, 6}, DType::boolean);
    const auto value = [](int input, const Index& i) {
      return datum(static_cast<std::size_t>(input), static_cast<std::size_t>(i[0] * 6 + i[1])) > 0;
    };
    check(g, {out}, {[&](const Index& i) { return value(x, i) || (alpha != 0 && value(y, i)); }});
  }
}

TEST_CASE("what is written into a slice that begins before the first element begins there") {
  GraphBuilder g;
  const int x = g.input({3, 5}), whole = g.input({3, 5}), part = g.input({3, 2});
  const int all = g.node("slice_scatter.default",
                         {V("self", x), V("src", whole), I("dim", 1), I("start", -7), I("end", 99)}, {3, 5});
  const int end = g.node("slice_scatter.default",
                         {V("self", x), V("src", part), I("dim", 1), I("start", -2), I("end", 99)}, {3, 5});
  const auto element = [](int value, std::int64_t at) {
    return datum(static_cast<std::size_t>(value), static_cast<std::size_t>(at));
  };
  check(g, {all}, {[&](const Index& i) { return element(whole, i[0] * 5 + i[1]); }});
  check(g, {end},
        {[&](const Index& i) { return i[1] < 3 ? element(x, i[0] * 5 + i[1]) : element(part, i[0] * 2 + i[1] - 3); }});
}
