#pragma once

#include <vector>

#include "column_samples.h"
#include "sample_kernels.h"

/// Kernels that fold along rows and across them.
namespace planish::codegen::samples {

inline int reduce_across(Build& b, ReduceKind kind, int arg, int phase, DType accumulate = DType::f32) {
  const int node = b.reduce(kind, arg, phase, accumulate);
  b.k.reductions.back().across = true;
  return node;
}
inline void column_output(Build& b, int node, DType dtype, std::vector<std::int64_t> shape, IndexExpr e) {
  b.output(node, dtype, std::move(shape), std::move(e));
  b.k.outputs.back().per_column = true;
}
inline Build cross_build(std::vector<std::int64_t> extents) {
  Build b;
  b.k.anchor = Anchor::row_and_column;
  b.k.space.extents = std::move(extents);
  b.k.inner = b.k.across = 1;
  return b;
}

inline Sample both_sums(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b = cross_build({rows, cols});
  const int x = b.load(b.input(dtype, {rows, cols}), b.at({{0, cols}, {1, 1}}));
  const DType sum = dtype == DType::f64 ? DType::f64 : DType::f32;
  b.output(b.reduce(ReduceKind::sum, x, 0, sum), dtype, {rows}, b.at({{0, 1}}), true);
  column_output(b, reduce_across(b, ReduceKind::sum, x, 0, sum), dtype, {cols}, b.at({{1, 1}}));
  return {"both_sums", {{"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// Several matrices, every kind of output, loads that all rows share, and a column's own epilogue.
inline Sample both_folds(std::int64_t batch, std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b = cross_build({batch, rows, cols});
  const auto row = b.at({{0, rows}, {1, 1}}), column = b.at({{0, cols}, {2, 1}});
  const auto whole = b.at({{0, rows * cols}, {1, cols}, {2, 1}});
  const int x = b.load(b.input(dtype, {batch, rows, cols}), whole);
  const int bias = b.load(b.input(DType::f32, {cols}), b.at({{2, 1}}));
  const int y = b.op(Op::relu, {b.op(Op::add, {x, bias})});
  b.output(y, dtype, {batch, rows, cols}, whole);
  b.output(b.reduce(ReduceKind::max, y, 0), dtype, {batch, rows}, row, true);
  const int large = b.op(Op::gt, {x, b.constant(2.5)}, DType::boolean);
  b.output(b.reduce(ReduceKind::any, large, 0, DType::boolean), DType::boolean, {batch, rows}, row, true);
  const int sum = reduce_across(b, ReduceKind::sum, y, 0);
  const int shift = b.load(b.input(DType::f32, {batch, cols}), column);
  column_output(b, b.op(Op::add, {b.op(Op::mul, {sum, bias}), shift}), dtype, {batch, cols}, column);
  column_output(b, reduce_across(b, ReduceKind::min, x, 0), dtype, {batch, cols}, column);
  const int small = b.op(Op::lt, {x, b.constant(4)}, DType::boolean);
  column_output(b, reduce_across(b, ReduceKind::all, small, 0, DType::boolean), DType::boolean, {batch, cols}, column);
  return {"both_folds", {{"batch", batch}, {"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// As logsumexp() is lowered, of rows and of columns, and the columns' sums beside.
inline Sample both_logsumexp(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b = cross_build({rows, cols});
  const int x = b.load(b.input(dtype, {rows, cols}), b.at({{0, cols}, {1, 1}}));
  const auto lse = [&](bool across) {
    const auto fold = [&](ReduceKind kind, int arg, int phase) {
      return across ? reduce_across(b, kind, arg, phase) : b.reduce(kind, arg, phase);
    };
    const int max = fold(ReduceKind::max, x, 0);
    const int infinite =
        b.op(Op::eq, {b.op(Op::abs, {max}), b.constant(std::numeric_limits<double>::infinity())}, DType::boolean);
    const int shift = b.op(Op::select, {infinite, b.constant(0), max});
    const int total = fold(ReduceKind::sum, b.op(Op::exp, {b.op(Op::sub, {x, shift})}), 1);
    return b.op(Op::add, {b.op(Op::log, {total}), shift});
  };
  b.output(lse(false), dtype, {rows}, b.at({{0, 1}}), true);
  column_output(b, lse(true), dtype, {cols}, b.at({{1, 1}}));
  column_output(b, reduce_across(b, ReduceKind::sum, x, 0), dtype, {cols}, b.at({{1, 1}}));
  return {"both_logsumexp", {{"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// Columns' sums of what needs whole rows.
inline Sample softmax_sums(std::int64_t rows, std::int64_t cols, bool stored, DType dtype = DType::f32) {
  Build b = cross_build({rows, cols});
  const auto whole = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(dtype, {rows, cols}), whole);
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int e = b.op(Op::exp, {b.op(Op::sub, {x, max})});
  const int y = b.op(Op::div, {e, b.reduce(ReduceKind::sum, e, 1)});
  if (stored) b.output(y, dtype, {rows, cols}, whole);
  column_output(b, reduce_across(b, ReduceKind::sum, y, 0), dtype, {cols}, b.at({{1, 1}}));
  return {"softmax_sums",
          {{"rows", rows}, {"cols", cols}, {"stored", stored ? 1 : 0}, {"dtype", code(dtype)}},
          std::move(b.k)};
}

/// One of the two alone, for comparison: an ordinary kernel over rows, or over columns.
inline Sample one_sum(std::int64_t rows, std::int64_t cols, bool columns, DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.inner = 1;
  b.k.space.extents = columns ? std::vector<std::int64_t>{cols, rows} : std::vector<std::int64_t>{rows, cols};
  const int x = b.load(b.input(dtype, {rows, cols}), columns ? b.at({{0, 1}, {1, cols}}) : b.at({{0, cols}, {1, 1}}));
  b.output(b.reduce(ReduceKind::sum, x, 0), dtype, {columns ? cols : rows}, b.at({{0, 1}}), true);
  return {
      columns ? "column_sums" : "row_sums", {{"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

inline std::vector<Sample> cross_samples() {
  return {both_sums(37, 64),
          both_sums(300, 1000),
          both_sums(61, 45),
          both_sums(5, 2052),
          both_sums(700, 2),
          both_sums(90, 160, DType::bf16),
          both_sums(40, 33, DType::f64),
          both_folds(3, 21, 64),
          both_folds(2, 130, 36, DType::bf16),
          both_logsumexp(37, 200),
          both_logsumexp(50, 33),
          both_logsumexp(60, 256, DType::bf16),
          softmax_sums(40, 128, true),
          softmax_sums(30, 1100, false),
          softmax_sums(33, 45, true, DType::bf16)};
}

inline std::vector<Sample> large_cross_samples() {
  return {both_sums(65536, 8192),
          both_sums(65536, 8192, DType::bf16),
          both_sums(1 << 20, 96),
          both_logsumexp(32768, 32768),
          both_logsumexp(32768, 32768, DType::bf16),
          softmax_sums(65536, 4096, false),
          softmax_sums(65536, 4096, true),
          both_folds(64, 1024, 8192),
          one_sum(65536, 8192, false),
          one_sum(65536, 8192, true),
          logsumexp(32768, 32768),
          logsumexp_columns(32768, 32768)};
}

}  // namespace planish::codegen::samples
