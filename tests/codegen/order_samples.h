#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/lower/lower.h"
#include "graph_builder.h"
#include "sample_kernels.h"

/// Kernels that give elements of rows by their rank, and what they are by definition.
namespace planish::codegen::samples {

struct OrderCase {
  std::int64_t rows, length, ranks;  ///< as many ranks as elements: a sort
  DType dtype = DType::f32;
  bool descending = true;
  bool scaled = false;   ///< elements are twice the input's
  bool softmax = false;  ///< they are the softmax of that
  bool only_places = false;
};

/// The graph, with its outputs: elements, unless places alone are wanted, and places.
inline std::vector<int> order_graph(GraphBuilder& g, const OrderCase& c) {
  const Shape shape{c.rows, c.length}, found{c.rows, c.ranks};
  int x = g.input(shape, c.dtype);
  if (c.scaled) x = g.node("mul.Scalar", {V("self", x), F("other", 2)}, shape, c.dtype);
  if (c.softmax) x = g.node("_softmax.default", {V("self", x), I("dim", 1), B("half_to_float", false)}, shape, c.dtype);
  const int values = g.value(found, c.dtype), places = g.value(found, DType::i64);
  std::vector<ir::Arg> args{V("self", x)};
  if (c.ranks < c.length) {
    args.insert(args.end(), {I("k", c.ranks), I("dim", -1), B("largest", c.descending), B("sorted", true)});
    g.graph.nodes.push_back({"aten.topk.default", std::move(args), {values, places}});
  } else {
    args.insert(args.end(), {B("stable", true), I("dim", -1), B("descending", c.descending)});
    g.graph.nodes.push_back({"aten.sort.stable", std::move(args), {values, places}});
  }
  return c.only_places ? std::vector<int>{places} : std::vector<int>{values, places};
}

inline Result<Kernel> order_kernel(const OrderCase& c, std::int64_t longest = 1 << 20) {
  GraphBuilder g;
  const std::vector<int> outputs = order_graph(g, c);
  LowerLimits limits;
  limits.longest_order = longest;
  return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), outputs, limits);
}

/// Places of a row's elements by PyTorch's order: NaN is the largest, and of equal elements the former comes first.
template <typename T>
std::vector<std::int64_t> places_in_order(const T* row, std::int64_t length, bool descending) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(length));
  std::iota(places.begin(), places.end(), 0);
  const auto less = [](T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return std::isnan(b) ? !std::isnan(a) : a < b;
    return a < b;
  };
  std::ranges::stable_sort(
      places, [&](std::int64_t a, std::int64_t b) { return descending ? less(row[b], row[a]) : less(row[a], row[b]); });
  return places;
}

/// For tests/gpu/emit_check.py: `large` ones are what serving asks for.
inline std::vector<Sample> order_samples(bool large) {
  const DType brain = DType::bf16;
  const std::vector<OrderCase> small{
      {5, 60, 8},           {5, 60, 8, brain, false}, {33, 128, 8, DType::f32, true, false, true},
      {9, 24, 24},          {4, 1000, 1000, brain},   {3, 3000, 3000, DType::i64, false},
      {3, 5000, 50, brain}, {2, 40000, 64},           {2, 9000, 20, DType::i32, false}};
  const std::vector<OrderCase> serving{{8192, 128, 8, DType::f32, true, false, true},
                                       {8192, 128, 8, brain},
                                       {1, 151936, 50},
                                       {16, 151936, 20, brain},
                                       {64, 32000, 50},
                                       {4096, 256, 256},
                                       {512, 4096, 4096},
                                       {1, 8192, 8192, DType::i64, false}};
  std::vector<Sample> out;
  for (const OrderCase& c : large ? serving : small) {
    auto kernel = order_kernel(c, 16384);
    out.push_back({c.softmax ? "softmax_order" : "order",
                   {{"rows", c.rows},
                    {"length", c.length},
                    {"ranks", c.ranks},
                    {"descending", c.descending ? 1 : 0},
                    {"dtype", code(c.dtype)}},
                   std::move(*kernel)});
  }
  return out;
}

}  // namespace planish::codegen::samples
