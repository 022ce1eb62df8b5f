#pragma once

#include <vector>

#include "sample_kernels.h"

/// Reductions written by hand whose memory runs along an outer variable, whose rows are few, or which look for
/// positions.
namespace planish::codegen::samples {

/// Softmax over dim 0: lanes are columns.
inline Sample softmax_columns(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {cols, rows};
  b.k.inner = 1;
  const auto full = b.at({{0, 1}, {1, cols}});
  const int x = b.load(b.input(DType::f32, {rows, cols}), full);
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int e = b.op(Op::exp, {b.op(Op::sub, {x, max})});
  const int sum = b.reduce(ReduceKind::sum, e, 1);
  b.output(b.op(Op::div, {e, sum}), DType::f32, {rows, cols}, full);
  return {"softmax_columns", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// any, all, max and min of i32, sum of booleans, product: every kind of reduction; over rows, or (`columns`) over
/// columns
inline Sample reductions(std::int64_t rows, std::int64_t cols, bool columns = false) {
  Build b;
  b.k.anchor = Anchor::row;
  const std::int64_t kept = columns ? cols : rows;
  b.k.space.extents = {kept, columns ? rows : cols};
  b.k.inner = 1;
  const auto full = columns ? b.at({{0, 1}, {1, cols}}) : b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::i32, {rows, cols}), full);
  const int y = b.load(b.input(DType::f32, {rows, cols}), full);
  const int above = b.op(Op::gt, {x, b.constant(18, DType::i32)}, DType::boolean);
  const int near = b.op(Op::lt, {b.op(Op::abs, {y}), b.constant(2.8)}, DType::boolean);
  const auto at = b.at({{0, 1}});
  b.output(b.reduce(ReduceKind::any, above, 0, DType::boolean), DType::boolean, {kept}, at, true);
  b.output(b.reduce(ReduceKind::all, near, 0, DType::boolean), DType::boolean, {kept}, at, true);
  b.output(b.reduce(ReduceKind::max, x, 0, DType::i32), DType::i32, {kept}, at, true);
  b.output(b.reduce(ReduceKind::min, y, 0), DType::f32, {kept}, at, true);
  b.output(b.reduce(ReduceKind::sum, b.op(Op::cast, {above}, DType::i64), 0, DType::i64), DType::i64, {kept}, at, true);
  b.output(b.reduce(ReduceKind::sum, b.op(Op::cast, {x}, DType::i64), 0, DType::i64), DType::i64, {kept}, at, true);
  b.output(b.reduce(ReduceKind::product, b.op(Op::add, {b.op(Op::mul, {y, b.constant(0.01)}), b.constant(1)}), 0),
           DType::f32, {kept}, at, true);
  return {"reductions", {{"rows", rows}, {"cols", cols}, {"columns", columns}}, std::move(b.k)};
}

/// sqrt(Σ exp(x)) and max of each column of a (slabs, rows, cols) tensor, over the middle
inline Sample column_stats(std::int64_t slabs, std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {slabs, cols, rows};
  b.k.inner = 1;
  const auto at = b.at({{0, cols}, {1, 1}});
  const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  const int x = b.load(b.input(dtype, {slabs, rows, cols}), b.at({{0, rows * cols}, {1, 1}, {2, cols}}));
  const int sum = b.reduce(ReduceKind::sum, b.op(Op::exp, {x}, compute), 0, compute);
  b.output(b.op(Op::sqrt, {sum}, compute), dtype, {slabs, cols}, at, true);
  b.output(b.reduce(ReduceKind::max, x, 0, compute), dtype, {slabs, cols}, at, true);
  return {"column_stats", {{"slabs", slabs}, {"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// Largest and smallest value's positions, and the largest value, over rows (or, `columns`, over columns)
inline Sample extremes(std::int64_t rows, std::int64_t cols, DType dtype, bool columns) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.inner = 1;
  const std::int64_t kept = columns ? cols : rows, length = columns ? rows : cols;
  b.k.space.extents = {kept, length};
  const int x = b.load(b.input(dtype, {rows, cols}), columns ? b.at({{0, 1}, {1, cols}}) : b.at({{0, cols}, {1, 1}}));
  const DType compute = dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
  const int at = b.index(b.at({{1, 1}}));
  for (const ReduceKind kind : {ReduceKind::argmax, ReduceKind::argmin}) {
    const int found = b.reduce(kind, x, 0, DType::i64);
    b.k.reductions.back().at = at;
    b.output(found, DType::i64, {kept}, b.at({{0, 1}}), true);
  }
  b.output(b.reduce(ReduceKind::max, x, 0, compute), dtype, {kept}, b.at({{0, 1}}), true);
  return {"extremes", {{"rows", rows}, {"cols", cols}, {"columns", columns}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// (x - mean) / sqrt(var + eps) over dims 0 and 2 of (n, c, hw), and the mean
inline Sample batch_standardize(std::int64_t n, std::int64_t c, std::int64_t hw) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {c, n, hw};
  b.k.inner = 2;
  const auto full = b.at({{0, hw}, {1, c * hw}, {2, 1}});
  const int x = b.load(b.input(DType::f32, {n, c, hw}), full);
  const int length = b.constant(static_cast<double>(n * hw));
  const int mean = b.op(Op::div, {b.reduce(ReduceKind::sum, x, 0), length});
  const int centred = b.op(Op::sub, {x, mean});
  const int var = b.op(Op::div, {b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1), length});
  const int rstd = b.op(Op::rsqrt, {b.op(Op::add, {var, b.constant(1e-5)})});
  b.output(b.op(Op::mul, {centred, rstd}), DType::f32, {n, c, hw}, full);
  b.output(mean, DType::f32, {c}, b.at({{0, 1}}), true);
  return {"batch_standardize", {{"n", n}, {"c", c}, {"hw", hw}}, std::move(b.k)};
}

/// Σ x and Σ (x - mean)² of everything: one row
inline Sample whole_moments(std::int64_t n, DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {n};
  b.k.inner = 1;
  const int x = b.load(b.input(dtype, {n}), b.at({{0, 1}}));
  const int sum = b.reduce(ReduceKind::sum, x, 0);
  const int length = b.constant(static_cast<double>(n));
  const int centred = b.op(Op::sub, {x, b.op(Op::div, {sum, length})});
  b.output(sum, DType::f32, {}, b.at({}), true);
  b.output(b.op(Op::div, {b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1), length}), DType::f32, {},
           b.at({}), true);
  return {"whole_moments", {{"n", n}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// log Σ exp over dim 0: a base that is not the maximum itself
inline Sample logsumexp_columns(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {cols, rows};
  b.k.inner = 1;
  const int x = b.load(b.input(DType::f32, {rows, cols}), b.at({{0, 1}, {1, cols}}));
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int infinite =
      b.op(Op::eq, {b.op(Op::abs, {max}), b.constant(std::numeric_limits<double>::infinity())}, DType::boolean);
  const int shift = b.op(Op::select, {infinite, b.constant(0), max});
  const int sum = b.reduce(ReduceKind::sum, b.op(Op::exp, {b.op(Op::sub, {x, shift})}), 1);
  b.output(b.op(Op::add, {b.op(Op::log, {sum}), shift}), DType::f32, {cols}, b.at({{0, 1}}), true);
  return {"logsumexp_columns", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// Awkward sizes of every kind.
inline std::vector<Sample> column_samples() {
  std::vector<Sample> out;
  out.push_back(column_stats(3, 67, 45));
  out.push_back(column_stats(2, 40, 64, DType::bf16));
  out.push_back(column_stats(1, 3001, 70));
  out.push_back(column_stats(1, 130, 8, DType::f64));
  out.push_back(softmax_columns(37, 150));
  out.push_back(softmax_columns(900, 8));
  out.push_back(logsumexp_columns(600, 40));
  out.push_back(rms_channels(2, 24, 60));
  out.push_back(reductions(301, 52, true));
  out.push_back(reductions(1100, 24, true));
  out.push_back(batch_standardize(300, 3, 1001));
  out.push_back(whole_moments(1 << 18));
  out.push_back(whole_moments(300'007, DType::bf16));
  for (const bool columns : {false, true}) {
    out.push_back(extremes(5, 1077, DType::f32, columns));
    out.push_back(extremes(130, 37, DType::f16, columns));
    out.push_back(extremes(9, 1003, DType::i32, columns));
    out.push_back(extremes(60, 21, DType::i64, columns));
  }
  return out;
}

/// The sizes that speed is judged by.
inline std::vector<Sample> large_column_samples() {
  std::vector<Sample> out;
  out.push_back(column_stats(1, 131072, 8192));
  out.push_back(column_stats(512, 512, 4096, DType::bf16));
  out.push_back(softmax_columns(4096, 262144));
  out.push_back(rms_channels(112, 64, 131072));
  out.push_back(batch_standardize(256, 3, 1 << 20));
  out.push_back(batch_standardize(112, 64, 1 << 18));
  out.push_back(batch_standardize(32, 64, 1 << 18));
  out.push_back(whole_moments(1 << 30));
  out.push_back(extremes(65536, 16384, DType::f32, false));
  out.push_back(extremes(65536, 16384, DType::f32, true));
  return out;
}

}  // namespace planish::codegen::samples
