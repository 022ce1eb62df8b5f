#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/graph_builder.h"
#include "codegen/lower/lower.h"

/// Kernels of attention of many queries whose keys and values lie in pages that a table names.
namespace planish::codegen::samples {

struct Paged {
  std::int64_t batch = 2, queries = 70, heads = 4, shared = 2;  ///< heads of q; of keys and values
  std::int64_t page = 16, pages = 6;                            ///< keys of one; of a sequence, by the table
  std::int64_t features = 16, columns = 16;
  bool by_place = true;  ///< pages lie as [place, head, feature], else [head, place, feature]
  /// Which keys count: all; those before a length; those up to the query's place behind a length, and of these those in
  /// a window; those up to a place that each query has.
  enum class Mask : std::uint8_t { none, length, causal, window, places } mask = Mask::causal;
  std::int64_t window = 20;
  bool wide = true;  ///< the table has 64 bits
  DType dtype = DType::bf16;

  std::int64_t keys() const { return page * pages; }
  std::int64_t pool() const { return batch * pages + 3; }
};

/// The graph, and its values.
struct PagedGraph {
  GraphBuilder g;
  int q = -1, k = -1, v = -1, table = -1, lengths = -1, out = -1;
};

/// Pages by the table, as keys or values of the batch.
inline int keys_of_pages(PagedGraph& m, const Paged& p, std::int64_t width, int& cache) {
  GraphBuilder& g = m.g;
  const Shape one = p.by_place ? Shape{p.page, p.shared, width} : Shape{p.shared, p.page, width};
  const auto with = [&](Shape shape) {
    shape.insert(shape.end(), one.begin(), one.end());
    return shape;
  };
  cache = g.input(with({p.pool()}), p.dtype);
  const int taken =
      g.node("index.Tensor", {V("self", cache), VS("indices", {m.table})}, with({p.batch, p.pages}), p.dtype);
  const std::int64_t n = p.keys(), block = p.shared * p.page * width;
  const Shape shape{p.batch, p.shared, n, width};
  if (p.by_place) {
    const int flat = g.node("view.default", {V("self", taken), L("size", {p.batch, n, p.shared, width})},
                            {p.batch, n, p.shared, width}, p.dtype);
    return g.node("permute.default", {V("self", flat), L("dims", {0, 2, 1, 3})}, shape, p.dtype,
                  {n * p.shared * width, width, p.shared * width, 1});
  }
  const int heads_first =
      g.node("permute.default", {V("self", taken), L("dims", {0, 2, 1, 3, 4})},
             {p.batch, p.shared, p.pages, p.page, width}, p.dtype, {p.pages * block, p.page * width, block, width, 1});
  return g.node("reshape.default", {V("self", heads_first), L("shape", shape)}, shape, p.dtype);
}

/// Booleans, of lengths [batch, 1, 1, 1] or places [batch, 1, queries, 1].
inline int mask_of_pages(PagedGraph& m, const Paged& p) {
  using Mask = Paged::Mask;
  GraphBuilder& g = m.g;
  const auto places = [&](std::int64_t count) {
    return g.node("arange.start_step", {I("start", 0), I("end", count), I("step", 1)}, {count}, DType::i64);
  };
  const auto test = [&](const char* op, int a, int b, const Shape& shape) {
    return g.node(op, {V("self", a), V("other", b)}, shape, DType::boolean);
  };
  const bool by_row = p.mask == Mask::places;
  m.lengths = g.input({p.batch, 1, by_row ? p.queries : 1, 1}, DType::i64);
  const int key = places(p.keys());
  if (p.mask == Mask::length) return test("lt.Tensor", key, m.lengths, {p.batch, 1, 1, p.keys()});
  const Shape rows{p.batch, 1, p.queries, 1}, all{p.batch, 1, p.queries, p.keys()};
  if (by_row) return test("le.Tensor", key, m.lengths, all);
  const int row = g.node("unsqueeze.default", {V("self", places(p.queries)), I("dim", 1)}, {p.queries, 1}, DType::i64);
  const int own = g.node("add.Tensor", {V("self", row), V("other", m.lengths)}, rows, DType::i64);
  const int seen = test("le.Tensor", key, own, all);
  if (p.mask == Mask::causal) return seen;
  const int first = g.node("sub.Tensor", {V("self", own), I("other", p.window)}, rows, DType::i64);
  const int near = test("gt.Tensor", key, first, all);
  return g.node("bitwise_and.Tensor", {V("self", seen), V("other", near)}, all, DType::boolean);
}

/// Queries lie as a projection leaves them, [batch, queries, heads, features], and so do results.
inline PagedGraph paged_graph(const Paged& p) {
  PagedGraph m;
  GraphBuilder& g = m.g;
  const auto strides = [&](std::int64_t width) {
    return std::vector<std::int64_t>{p.queries * p.heads * width, width, p.heads * width, 1};
  };
  m.q = g.input({p.batch, p.heads, p.queries, p.features}, p.dtype, strides(p.features));
  m.table = g.input({p.batch, p.pages}, p.wide ? DType::i64 : DType::i32);
  const int k = keys_of_pages(m, p, p.features, m.k), v = keys_of_pages(m, p, p.columns, m.v);
  std::vector<ir::Arg> args{V("query", m.q), V("key", k), V("value", v)};
  if (p.mask != Paged::Mask::none) args.push_back(V("attn_mask", mask_of_pages(m, p)));
  args.push_back(B("enable_gqa", p.heads != p.shared));
  m.out = g.node("scaled_dot_product_attention.default", std::move(args), {p.batch, p.heads, p.queries, p.columns},
                 p.dtype, strides(p.columns));
  g.output(m.out);
  return m;
}

inline Result<Kernel> paged_kernel(const PagedGraph& m) {
  LowerLimits limits;
  limits.contractions = true;
  return lower(m.g.graph, std::vector<bool>(m.g.graph.nodes.size(), true), std::vector{m.out}, limits);
}

}  // namespace planish::codegen::samples
