// Windows: which pooling and convolution nodes become kernels, and what they mean.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "codegen/graph_builder.h"
#include "codegen/interpreter.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"

using namespace planish;
using namespace planish::codegen;

namespace {

constexpr std::int64_t C = 2, H = 7, W = 9;

double datum(std::int64_t i) {
  return std::sin(static_cast<double>(i) * 7 + 1) * 2;
}
double pixel(std::int64_t c, std::int64_t h, std::int64_t w) {
  return datum((c * H + h) * W + w);
}
bool inside(std::int64_t h, std::int64_t w) {
  return h >= 0 && h < H && w >= 0 && w < W;
}

std::vector<bool> all(const GraphBuilder& g) {
  return std::vector<bool>(g.graph.nodes.size(), true);
}

/// Lowers the node behind `id` and compares it with f(channel, row, column); every input holds the data above.
Kernel check(const GraphBuilder& g, int id, const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& f) {
  const int ids[] = {id};
  const auto kernel = lower(g.graph, all(g), ids);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  std::vector<std::vector<double>> inputs;
  for (const Input& input : kernel->inputs) {
    inputs.emplace_back();
    for (std::int64_t i = 0; i < input.storage_elements; ++i) inputs.back().push_back(datum(i));
  }
  const auto result = Interpreter(*kernel, inputs).run();
  const auto& shape = g.graph.values[static_cast<std::size_t>(id)].shape;
  std::size_t at = 0, wrong = 0;
  for (std::int64_t c = 0; c < shape[0]; ++c)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t w = 0; w < shape[2]; ++w) {
        const double got = result[0][at++], want = f(c, h, w);
        wrong += !(std::abs(got - want) <= 1e-9 * (1 + std::abs(want)));
      }
  CHECK_MESSAGE(wrong == 0, text(*kernel));
  return *kernel;
}

std::string refused(const GraphBuilder& g, int id) {
  const int ids[] = {id};
  const auto kernel = lower(g.graph, all(g), ids);
  REQUIRE_FALSE(kernel.has_value());
  CHECK(kernel.error().kind.name() == "unsupported");
  return kernel.error().message;
}

double greatest(std::int64_t c, std::int64_t h0, std::int64_t w0, std::int64_t kh, std::int64_t kw, std::int64_t dh = 1,
                std::int64_t dw = 1) {
  double best = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < kh; ++i)
    for (std::int64_t j = 0; j < kw; ++j)
      if (inside(h0 + i * dh, w0 + j * dw)) best = std::max(best, pixel(c, h0 + i * dh, w0 + j * dw));
  return best;
}

}  // namespace

TEST_CASE("a small maximum pool is pointwise: its taps are loads, outside of which lies minus infinity") {
  GraphBuilder g;
  const int x = g.input({C, H, W});
  const int y = g.node("max_pool2d.default",
                       {V("self", x), L("kernel_size", {3, 3}), L("stride", {2, 1}), L("padding", {1, 1})}, {C, 4, W});
  const auto k = check(g, y, [](auto c, auto h, auto w) { return greatest(c, 2 * h - 1, w - 1, 3, 3); });
  CHECK(k.anchor == Anchor::pointwise);
  CHECK(text(k).find("-inf") != std::string::npos);
}

TEST_CASE("dilated windows, and windows that end outside (ceil_mode)") {
  GraphBuilder g;
  const int x = g.input({C, H, W});
  const int y = g.node("max_pool2d.default",
                       {V("self", x), L("kernel_size", {2}), L("stride", {3, 2}), L("padding", {0, 1}),
                        L("dilation", {2, 3}), B("ceil_mode", true)},
                       {C, 3, 5});
  check(g, y, [](auto c, auto h, auto w) { return greatest(c, 3 * h, 2 * w - 1, 2, 2, 2, 3); });
}

TEST_CASE("positions count in the plane that the window moves over; the first of equal values counts") {
  GraphBuilder g;
  const int x = g.input({C, H, W});
  const int flat = g.node("mul.Scalar", {V("self", x), F("other", 0)}, {C, H, W});
  const int values = g.value({C, H, W});
  const int places = g.value({C, H, W}, DType::i64);
  g.graph.nodes.push_back({"aten.max_pool2d_with_indices.default",
                           {V("self", flat), L("kernel_size", {3, 3}), L("stride", {1, 1}), L("padding", {1, 1})},
                           {values, places}});
  check(g, places, [](auto, std::int64_t h, std::int64_t w) {
    return static_cast<double>(std::max<std::int64_t>(h - 1, 0) * W + std::max<std::int64_t>(w - 1, 0));
  });

  GraphBuilder other;
  const int z = other.input({C, H, W});
  const int v = other.value({C, 3, 4}), p = other.value({C, 3, 4}, DType::i64);
  other.graph.nodes.push_back(
      {"aten.max_pool2d_with_indices.default", {V("self", z), L("kernel_size", {2, 2})}, {v, p}});
  check(other, p, [](auto c, auto h, auto w) {
    std::int64_t best = 2 * h * W + 2 * w;
    for (const std::int64_t at : {best + 1, best + W, best + W + 1})
      if (datum(c * H * W + at) > datum(c * H * W + best)) best = at;
    return static_cast<double>(best);
  });
}

TEST_CASE("an average divides by what its window covers, by the whole window, or by what it is told") {
  const auto mean = [](std::int64_t c, std::int64_t h0, std::int64_t w0, auto&& divisor) {
    double sum = 0;
    std::int64_t covered = 0;
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 3; ++j)
        if (inside(h0 + i, w0 + j)) {
          sum += pixel(c, h0 + i, w0 + j);
          ++covered;
        }
    return sum / static_cast<double>(divisor(covered));
  };
  const auto pool = [](std::vector<ir::Arg> more, const Shape& shape, GraphBuilder& g) {
    const int x = g.input({C, H, W});
    std::vector<ir::Arg> args{V("self", x), L("kernel_size", {3, 3}), L("stride", {2, 2}), L("padding", {1, 1})};
    args.insert(args.end(), more.begin(), more.end());
    return g.node("avg_pool2d.default", args, shape);
  };
  GraphBuilder whole, covered, told;
  check(whole, pool({B("count_include_pad", true)}, {C, 4, 5}, whole),
        [&](auto c, auto h, auto w) { return mean(c, 2 * h - 1, 2 * w - 1, [](auto) { return 9; }); });
  check(covered, pool({B("count_include_pad", false)}, {C, 4, 5}, covered),
        [&](auto c, auto h, auto w) { return mean(c, 2 * h - 1, 2 * w - 1, [](auto n) { return n; }); });
  check(told, pool({I("divisor_override", 5)}, {C, 4, 5}, told),
        [&](auto c, auto h, auto w) { return mean(c, 2 * h - 1, 2 * w - 1, [](auto) { return 5; }); });

  // A window that begins inside and ends past the padding counts what lies before the padding's end.
  GraphBuilder g;
  const int x = g.input({C, H, W});
  const int y = g.node("avg_pool1d.default",
                       {V("self", x), L("kernel_size", {4}), L("stride", {4}), L("padding", {1}), B("ceil_mode", true)},
                       {C, H, 3});
  check(g, y, [](auto c, auto h, auto w) {
    const std::int64_t from = 4 * w - 1, upto = std::min<std::int64_t>(from + 4, W + 1);
    double sum = 0;
    for (std::int64_t i = from; i < upto; ++i) sum += inside(h, i) ? pixel(c, h, i) : 0;
    return sum / static_cast<double>(upto - from);
  });
}

TEST_CASE("a large window sweeps its outer dims as a row") {
  GraphBuilder g;
  const int x = g.input({C, 33, 33});
  const int y = g.node("avg_pool2d.default", {V("self", x), L("kernel_size", {11, 11})}, {C, 3, 3});
  const auto k = check(g, y, [](auto c, auto h, auto w) {
    double sum = 0;
    for (std::int64_t i = 0; i < 11; ++i)
      for (std::int64_t j = 0; j < 11; ++j) sum += datum((c * 33 + 11 * h + i) * 33 + 11 * w + j);
    return sum / 121;
  });
  CHECK(k.anchor == Anchor::row);
  CHECK(k.inner_extent() == 11);
}

TEST_CASE("adaptive averages have windows of one size, or stay with torch") {
  GraphBuilder g;
  const int x = g.input({C, 6, 8});
  check(g, g.node("adaptive_avg_pool2d.default", {V("self", x), L("output_size", {3, 2})}, {C, 3, 2}),
        [](auto c, auto h, auto w) {
          double sum = 0;
          for (std::int64_t i = 0; i < 8; ++i) sum += datum((c * 6 + 2 * h + i / 4) * 8 + 4 * w + i % 4);
          return sum / 8;
        });
  CHECK(refused(g, g.node("adaptive_avg_pool2d.default", {V("self", x), L("output_size", {4, 3})}, {C, 4, 3}))
            .find("several sizes") != std::string::npos);
}

TEST_CASE("adaptive maxima are those of windows of one size, or stay with torch") {
  GraphBuilder g;
  const int x = g.input({C, 6, 8});
  check(g, g.node("adaptive_max_pool2d.default", {V("self", x), L("output_size", {3, 2})}, {C, 3, 2}),
        [](auto c, auto h, auto w) {
          double most = -INFINITY;
          for (std::int64_t i = 0; i < 8; ++i)
            most = std::max<double>(most, datum((c * 6 + 2 * h + i / 4) * 8 + 4 * w + i % 4));
          return most;
        });
  CHECK(refused(g, g.node("adaptive_max_pool2d.default", {V("self", x), L("output_size", {4, 3})}, {C, 4, 3}))
            .find("several sizes") != std::string::npos);
}

TEST_CASE("a convolution of channels with themselves is a stencil, also with several results a channel") {
  GraphBuilder g;
  const int x = g.input({C, H, W}), weight = g.input({2 * C, 1, 3, 2}), bias = g.input({2 * C});
  const int y = g.node("conv2d.default",
                       {V("input", x), V("weight", weight), V("bias", bias), L("stride", {2, 1}), L("padding", {1, 1}),
                        L("dilation", {1, 2}), I("groups", C)},
                       {2 * C, 4, W});
  const auto k = check(g, y, [](auto o, auto h, auto w) {
    double sum = datum(o);
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 2; ++j) {
        const std::int64_t r = 2 * h - 1 + i, c = w - 1 + 2 * j;
        if (inside(r, c)) sum += pixel(o / 2, r, c) * datum((o * 3 + i) * 2 + j);
      }
    return sum;
  });
  CHECK(k.anchor == Anchor::pointwise);

  GraphBuilder same;
  const int z = same.input({C, H, W}), even = same.input({C, 1, 1, 4});
  check(same,
        same.node("conv2d.padding",
                  {V("input", z), V("weight", even), N("bias"), L("stride", {1, 1}), S("padding", "same"),
                   L("dilation", {1, 1}), I("groups", C)},
                  {C, H, W}),
        [](auto c, auto h, auto w) {
          double sum = 0;
          for (std::int64_t j = 0; j < 4; ++j)
            if (inside(h, w - 1 + j)) sum += pixel(c, h, w - 1 + j) * datum(c * 4 + j);
          return sum;
        });
}

TEST_CASE("what is a product of matrices stays with torch") {
  GraphBuilder g;
  const int x = g.input({C, H, W}), dense = g.input({4, C, 3, 3}), wide = g.input({C, 1, 9, 9});
  CHECK(refused(g, g.node("conv2d.default", {V("input", x), V("weight", dense), N("bias"), L("padding", {1, 1})},
                          {4, H, W}))
            .find("several channels") != std::string::npos);
  CHECK(
      refused(g, g.node("conv2d.default",
                        {V("input", x), V("weight", wide), N("bias"), L("padding", {4, 4}), I("groups", C)}, {C, H, W}))
          .find("many taps") != std::string::npos);
}

TEST_CASE("cheap work before a window joins it, costly work is done once in front") {
  const auto kernels = [](const char* before) {
    GraphBuilder g;
    const int x = g.input({C, 64, 64});
    const int a = g.node(before, {V("self", x)}, {C, 64, 64});
    const int y =
        g.node("max_pool2d.default",
               {V("self", a), L("kernel_size", {3, 3}), L("stride", {1, 1}), L("padding", {1, 1})}, {C, 64, 64});
    const int z = g.node("sigmoid.default", {V("self", y)}, {C, 64, 64});
    g.output(z);
    const auto parts = partition(g.graph);
    REQUIRE(parts.has_value());
    return parts->regions.size();
  };
  CHECK(kernels("relu.default") == 1);
  CHECK(kernels("erf.default") == 2);
}
