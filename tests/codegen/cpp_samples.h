#pragma once

#include <vector>

#include "column_samples.h"
#include "sample_kernels.h"

/// More kernels written by hand: what the C++ emitter treats apart (dtypes, columns, tiles, integer rules, masks).
namespace planish::codegen::samples {

inline Sample row_sum(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const int x = b.load(b.input(DType::f32, {rows, cols}), b.at({{0, cols}, {1, 1}}));
  b.output(b.reduce(ReduceKind::sum, b.op(Op::mul, {x, x}), 0), DType::f32, {rows}, b.at({{0, 1}}), true);
  return {"row_sum", {}, std::move(b.k)};
}

/// x.t() * scale, in the element type given
inline Sample transpose_scale(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b;
  b.k.space.extents = {rows, cols};
  const int x = b.load(b.input(dtype, {cols, rows}), b.at({{0, 1}, {1, rows}}));
  const int y = b.op(Op::mul, {x, b.constant(2.5, dtype)}, dtype);
  b.output(y, dtype, {rows, cols}, b.at({{0, cols}, {1, 1}}));
  return {"transpose_scale", {}, std::move(b.k)};
}

/// Many unary functions of |x| + 0.1 or x, summed up in pairs of outputs.
inline Sample functions(std::int64_t n, DType dtype) {
  Build b;
  b.k.space.extents = {n};
  const auto at = b.at({{0, 1}});
  const int x = b.load(b.input(dtype, {n}), at);
  const int p = b.op(Op::add, {b.op(Op::abs, {x}, dtype), b.constant(0.1, dtype)}, dtype);
  for (Op o : {Op::log, Op::log2, Op::log1p, Op::sqrt, Op::rsqrt, Op::log10})
    b.output(b.op(o, {p}, dtype), dtype, {n}, at);
  for (Op o : {Op::exp, Op::exp2, Op::expm1, Op::sin, Op::cos, Op::tanh, Op::erf, Op::erfc, Op::sigmoid, Op::atan,
               Op::asinh, Op::floor, Op::ceil, Op::trunc, Op::round_even, Op::sign, Op::relu, Op::neg, Op::reciprocal})
    b.output(b.op(o, {x}, dtype), dtype, {n}, at);
  b.output(b.op(Op::pow, {p, x}, dtype), dtype, {n}, at);
  b.output(b.op(Op::atan2, {p, x}, dtype), dtype, {n}, at);
  b.output(b.op(Op::maximum, {x, b.constant(0.25, dtype)}, dtype), dtype, {n}, at);
  b.output(b.op(Op::minimum, {b.constant(0.25, dtype), x}, dtype), dtype, {n}, at);
  b.output(b.op(Op::fmax, {x, b.constant(0.25, dtype)}, dtype), dtype, {n}, at);
  b.output(b.op(Op::fmin, {b.constant(0.25, dtype), x}, dtype), dtype, {n}, at);
  b.output(b.op(Op::isnan, {x}, DType::boolean), DType::boolean, {n}, at);
  b.output(b.op(Op::isinf, {x}, DType::boolean), DType::boolean, {n}, at);
  b.output(b.op(Op::isfinite, {x}, DType::boolean), DType::boolean, {n}, at);
  b.output(b.op(Op::le, {x, b.constant(0, dtype)}, DType::boolean), DType::boolean, {n}, at);
  return {"functions", {}, std::move(b.k)};
}

/// Integer arithmetic with wrapping, Python's sign rules, shifts; of one integer type.
inline Sample integer_ops(std::int64_t n, DType t) {
  Build b;
  b.k.space.extents = {n};
  const auto at = b.at({{0, 1}});
  const int x = b.load(b.input(t, {n}), at), y = b.load(b.input(t, {n}), at);
  const int big = b.op(Op::mul, {b.op(Op::mul, {x, y}, t), b.op(Op::mul, {x, x}, t)}, t);
  for (Op o : {Op::add, Op::sub, Op::floor_div, Op::trunc_div, Op::remainder, Op::fmod, Op::maximum, Op::minimum,
               Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor})
    b.output(b.op(o, {x, y}, t), t, {n}, at);
  b.output(big, t, {n}, at);
  const int three = b.constant(3, t);
  b.output(b.op(Op::shift_left, {x, three}, t), t, {n}, at);
  b.output(b.op(Op::shift_right, {x, three}, t), t, {n}, at);
  b.output(b.op(Op::pow, {x, three}, t), t, {n}, at);
  for (Op o : {Op::neg, Op::abs, Op::sign, Op::bitwise_not}) b.output(b.op(o, {x}, t), t, {n}, at);
  // Far outside what it is clamped to, and for i64 outside 32 bits.
  const int far = b.op(Op::shift_left, {x, b.constant(8 * size_of(t) - 6, t)}, t);
  b.output(b.op(Op::minimum, {b.op(Op::maximum, {far, b.constant(1, t)}, t), b.constant(5, t)}, t), t, {n}, at);
  b.output(b.op(Op::lt, {x, y}, DType::boolean), DType::boolean, {n}, at);
  b.output(b.op(Op::logical_and, {x, y}, DType::boolean), DType::boolean, {n}, at);
  return {"integer_ops", {}, std::move(b.k)};
}

/// f32 → bf16 (rounded) → f16 (rounded) → i32 → f64 and bool
inline Sample casts(std::int64_t n) {
  Build b;
  b.k.space.extents = {n};
  const auto at = b.at({{0, 1}});
  const int x = b.load(b.input(DType::f16, {n}), at);
  const int clean =
      b.op(Op::select, {b.op(Op::lt, {b.op(Op::abs, {x}), b.constant(1000)}, DType::boolean), x, b.constant(0)});
  const int h = b.op(Op::cast, {clean}, DType::bf16);
  b.k.nodes[static_cast<std::size_t>(h)].rounds = true;
  const int q = b.op(Op::cast, {b.op(Op::mul, {h, b.constant(3.7)})}, DType::f16);
  b.k.nodes[static_cast<std::size_t>(q)].rounds = true;
  const int i = b.op(Op::cast, {q}, DType::i32);
  b.output(h, DType::bf16, {n}, at);
  b.output(q, DType::f16, {n}, at);
  b.output(i, DType::i32, {n}, at);
  b.output(b.op(Op::cast, {i}, DType::i8), DType::i8, {n}, at);
  b.output(b.op(Op::cast, {i}, DType::boolean), DType::boolean, {n}, at);
  b.output(b.op(Op::cast, {b.op(Op::cast, {i}, DType::boolean)}, DType::f32), DType::f32, {n}, at);
  b.output(b.op(Op::cast, {i}, DType::i64), DType::i64, {n}, at);
  return {"casts", {}, std::move(b.k)};
}

/// An integer's zero has no sign, whatever was truncated to it: along the vectors, and once for all of them.
inline Sample truncated_signs(std::int64_t n) {
  Build b;
  b.k.space.extents = {5, n};
  const int x = b.load(b.input(DType::f32, {5}), b.at({{0, 1}}));
  const int y = b.load(b.input(DType::f32, {n}), b.at({{1, 1}}));
  for (const int v : {x, y}) {
    const int fits = b.op(Op::lt, {b.op(Op::abs, {v}), b.constant(1000)}, DType::boolean);
    const int small = b.op(Op::mul, {b.op(Op::select, {fits, v, b.constant(0)}), b.constant(0.125)});
    const int back = b.op(Op::cast, {b.op(Op::cast, {small}, DType::i32)});
    const int both = b.op(Op::add, {b.op(Op::copysign, {b.constant(1), back}), b.op(Op::mul, {y, b.constant(0)})});
    b.output(both, DType::f32, {5, n}, b.at({{0, n}, {1, 1}}));
  }
  return {"truncated_signs", {}, std::move(b.k)};
}

/// Softmax of numbers so large that a product fused with the difference from its row's maximum is off by thousands.
inline Sample scaled_softmax(std::int64_t rows, std::int64_t cols, bool negative) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int scaled = b.op(Op::mul, {b.load(b.input(DType::f32, {rows, cols}), full), b.constant(1.1e12)});
  const int y = negative ? b.op(Op::neg, {scaled}) : scaled;
  const int e = b.op(Op::exp, {b.op(Op::sub, {y, b.reduce(ReduceKind::max, y, 0)})});
  b.output(b.op(Op::div, {e, b.reduce(ReduceKind::sum, e, 1)}), DType::f32, {rows, cols}, full);
  return {"scaled_softmax", {}, std::move(b.k)};
}

/// Causal mask from two index nodes, then softmax over the last dimension.
inline Sample causal_softmax(std::int64_t n) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {n, n};
  b.k.inner = 1;
  const auto full = b.at({{0, n}, {1, 1}});
  const auto position = [&](int v) {
    const int i = b.op(Op::index, {}, DType::i64);
    b.k.nodes[static_cast<std::size_t>(i)].index = b.at({{v, 1}});
    return i;
  };
  const int row = position(0), col = position(1);
  const int x = b.load(b.input(DType::f32, {n, n}), full);
  const int kept = b.op(Op::select, {b.op(Op::ge, {row, col}, DType::boolean), x, b.constant(-INFINITY)});
  const int max = b.reduce(ReduceKind::max, kept, 0);
  const int e = b.op(Op::exp, {b.op(Op::sub, {kept, max})});
  const int sum = b.reduce(ReduceKind::sum, e, 1);
  b.output(b.op(Op::div, {e, sum}), DType::f32, {n, n}, full);
  return {"causal_softmax", {}, std::move(b.k)};
}

/// A repeat: x[i mod n] + y[i div 3], indices with div and mod along the vector variable.
inline Sample folded_indices(std::int64_t n, std::int64_t times) {
  Build b;
  b.k.space.extents = {n * times};
  const auto i = IndexExpr::variable(0);
  const int x = b.load(b.input(DType::f32, {n}), ir::mod(i, n, b.k.space));
  const int y = b.load(b.input(DType::f32, {n * times / 3 + 1}), ir::floor_div(i, 3, b.k.space));
  b.output(b.op(Op::add, {x, y}), DType::f32, {n * times}, b.at({{0, 1}}));
  return {"folded_indices", {}, std::move(b.k)};
}

inline Sample scalar_exp() {
  Build b;
  const int x = b.load(b.input(DType::f32, {}), IndexExpr::constant(0));
  b.output(b.op(Op::exp, {x}), DType::f32, {}, IndexExpr::constant(0));
  return {"scalar_exp", {}, std::move(b.k)};
}

inline std::vector<Sample> cpp_samples() {
  std::vector<Sample> out;
  out.push_back(row_sum(3, 1));
  out.push_back(row_sum(1, 70001));
  out.push_back(row_sum(300, 10));
  out.push_back(softmax_columns(37, 150));
  out.push_back(softmax_columns(9000, 5));
  out.push_back(transpose_scale(130, 95));
  out.push_back(transpose_scale(64, 128));
  out.push_back(transpose_scale(64, 70, DType::bf16));
  out.push_back(transpose_scale(37, 48, DType::i32));
  out.push_back(functions(1000, DType::f32));
  out.push_back(functions(333, DType::f64));
  for (DType t : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) out.push_back(integer_ops(515, t));
  out.push_back(casts(1037));
  out.push_back(causal_softmax(75));
  for (const bool negative : {false, true}) out.push_back(scaled_softmax(40, 150, negative));
  out.push_back(reductions(9, 301));
  out.push_back(reductions(2, 40000));
  out.push_back(folded_indices(7, 60));
  out.push_back(scalar_exp());
  // Last, so that those before keep their data.
  out.push_back(column_stats(3, 67, 45));
  out.push_back(column_stats(1, 130, 1, DType::f64));
  out.push_back(extremes(5, 77, DType::f32, false));
  out.push_back(extremes(130, 37, DType::f16, true));
  out.push_back(extremes(9, 1003, DType::i32, false));
  out.push_back(extremes(40, 21, DType::f64, true));
  out.push_back(extremes(50, 19, DType::i64, true));
  out.push_back(batch_standardize(3, 5, 131));
  return out;
}

}  // namespace planish::codegen::samples
