#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernel.h"

/// Kernels written by hand, as the partition would build them: what emitters are tested on before, and apart from, any
/// graph.
namespace planish::codegen::samples {

struct Sample {
  std::string family;  ///< the reference that tests/gpu/emit_check.py computes
  std::vector<std::pair<std::string, std::int64_t>> parameters;  ///< its sizes
  Kernel kernel;
};

using ir::IndexExpr;

/// Builds a Kernel node by node.
class Build {
 public:
  Kernel k;

  int input(DType dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
    Input in;
    in.dtype = dtype;
    if (strides.empty()) {
      strides.assign(shape.size(), 1);
      for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    }
    in.storage_elements = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) in.storage_elements += (shape[i] - 1) * strides[i];
    in.shape = std::move(shape);
    in.strides = std::move(strides);
    k.inputs.push_back(std::move(in));
    return static_cast<int>(k.inputs.size()) - 1;
  }
  /// Σ coefficient · variable + constant.
  IndexExpr at(const std::vector<std::pair<int, std::int64_t>>& terms, std::int64_t constant = 0) const {
    IndexExpr e = IndexExpr::constant(constant);
    for (const auto& [v, c] : terms) e = ir::add(e, ir::scale(IndexExpr::variable(v), c), k.space);
    return e;
  }
  int load(int in, IndexExpr e, std::vector<ir::Bound> where = {}, double outside = 0) {
    Node node;
    node.op = Op::load;
    node.dtype = k.inputs[static_cast<std::size_t>(in)].dtype;
    node.input = in;
    node.index = std::move(e);
    node.where = std::move(where);
    node.value = outside;
    return push(std::move(node));
  }
  int constant(double value, DType dtype = DType::f32) {
    Node node;
    node.dtype = dtype;
    node.value = value;
    node.bits = static_cast<std::int64_t>(value);
    return push(std::move(node));
  }
  int op(Op what, std::vector<int> args, DType dtype = DType::f32) {
    Node node;
    node.op = what;
    node.dtype = dtype;
    node.args = std::move(args);
    return push(std::move(node));
  }
  int index(IndexExpr e) {
    Node node;
    node.op = Op::index;
    node.dtype = DType::i64;
    node.index = std::move(e);
    return push(std::move(node));
  }
  int reduce(ReduceKind kind, int arg, int phase, DType accumulate = DType::f32) {
    k.reductions.push_back({kind, arg, accumulate, phase});
    Node node;
    node.op = Op::reduced;
    node.dtype = accumulate;
    node.reduction = static_cast<int>(k.reductions.size()) - 1;
    return push(std::move(node));
  }
  void output(int node, DType dtype, std::vector<std::int64_t> shape, IndexExpr e, bool per_row = false) {
    Output out;
    out.node = node;
    out.dtype = dtype;
    out.strides.assign(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) out.strides[i - 1] = out.strides[i] * shape[i];
    out.shape = std::move(shape);
    out.index = std::move(e);
    out.per_row = per_row;
    k.outputs.push_back(std::move(out));
  }

 private:
  int push(Node node) {
    k.nodes.push_back(std::move(node));
    return static_cast<int>(k.nodes.size()) - 1;
  }
};

inline DType sized(std::int64_t code) {
  return static_cast<DType>(code);
}
constexpr std::int64_t code(DType dtype) {
  return static_cast<std::int64_t>(dtype);
}

inline Sample relu(std::int64_t n, DType dtype = DType::f32) {
  Build b;
  b.k.space.extents = {n};
  const int x = b.load(b.input(dtype, {n}), b.at({{0, 1}}));
  b.output(b.op(Op::relu, {x}, dtype), dtype, {n}, b.at({{0, 1}}));
  return {"relu", {{"n", n}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// gelu(x + bias) + residual
inline Sample bias_gelu(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b;
  b.k.space.extents = {rows, cols};
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(dtype, {rows, cols}), full);
  const int bias = b.load(b.input(dtype, {cols}), b.at({{1, 1}}));
  const int residual = b.load(b.input(dtype, {rows, cols}), full);
  const int y = b.op(Op::add, {x, bias});
  const int erf = b.op(Op::erf, {b.op(Op::mul, {y, b.constant(0.70710678118654752)})});
  const int gelu = b.op(Op::mul, {b.op(Op::mul, {y, b.constant(0.5)}), b.op(Op::add, {erf, b.constant(1)})});
  b.output(b.op(Op::add, {gelu, residual}), dtype, {rows, cols}, full);
  return {"bias_gelu", {{"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// x.t() + y
inline Sample transpose_add(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.space.extents = {rows, cols};
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::f32, {cols, rows}), b.at({{0, 1}, {1, rows}}));
  const int y = b.load(b.input(DType::f32, {rows, cols}), full);
  b.output(b.op(Op::add, {x, y}), DType::f32, {rows, cols}, full);
  return {"transpose_add", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// where(mask, x, -1) with a byte mask; two outputs, one of them bf16
inline Sample masked(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.space.extents = {rows, cols};
  const auto full = b.at({{0, cols}, {1, 1}});
  const int mask = b.load(b.input(DType::boolean, {rows, cols}), full);
  const int x = b.load(b.input(DType::f32, {rows, cols}), full);
  const int y = b.op(Op::select, {mask, x, b.constant(-1)});
  b.output(y, DType::f32, {rows, cols}, full);
  b.output(y, DType::bf16, {rows, cols}, full);
  return {"masked", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// pad(flip(x, last), (2, 3), value 7)
inline Sample flip_pad(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.space.extents = {rows, cols + 5};
  const auto position = b.at({{1, 1}}, -2);
  const int x =
      b.load(b.input(DType::f32, {rows, cols}), b.at({{0, cols}, {1, -1}}, cols + 1), {{position, 0, cols}}, 7);
  b.output(x, DType::f32, {rows, cols + 5}, b.at({{0, cols + 5}, {1, 1}}));
  return {"flip_pad", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// Integers: remainder and floor division by a column vector, in i64
inline Sample integers(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.space.extents = {rows, cols};
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::i64, {rows, cols}), full);
  const int d = b.load(b.input(DType::i64, {rows}), b.at({{0, 1}}));
  b.output(b.op(Op::remainder, {x, d}, DType::i64), DType::i64, {rows, cols}, full);
  b.output(b.op(Op::floor_div, {x, d}, DType::i64), DType::i64, {rows, cols}, full);
  return {"integers", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

inline Sample softmax(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(dtype, {rows, cols}), full);
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int e = b.op(Op::exp, {b.op(Op::sub, {x, max})});
  const int sum = b.reduce(ReduceKind::sum, e, 1);
  b.output(b.op(Op::div, {e, sum}), dtype, {rows, cols}, full);
  return {"softmax", {{"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// softmax of x where column ≤ row, -inf elsewhere
inline Sample causal_softmax(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::f32, {rows, cols}), full);
  const int row = b.index(b.at({{0, 1}}));
  const int col = b.index(b.at({{1, 1}}));
  const int masked = b.op(
      Op::select, {b.op(Op::le, {col, row}, DType::boolean), x, b.constant(-std::numeric_limits<double>::infinity())});
  const int max = b.reduce(ReduceKind::max, masked, 0);
  const int e = b.op(Op::exp, {b.op(Op::sub, {masked, max})});
  b.output(b.op(Op::div, {e, b.reduce(ReduceKind::sum, e, 1)}), DType::f32, {rows, cols}, full);
  return {"causal_softmax", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// One number, no variable at all: x + 1
inline Sample scalar() {
  Build b;
  const int x = b.load(b.input(DType::f32, {}), b.at({}));
  b.output(b.op(Op::add, {x, b.constant(1)}), DType::f32, {}, b.at({}));
  return {"scalar", {}, std::move(b.k)};
}

inline Sample logsumexp(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const int x = b.load(b.input(DType::f32, {rows, cols}), b.at({{0, cols}, {1, 1}}));
  const int max = b.reduce(ReduceKind::max, x, 0);
  // An infinite maximum would give inf - inf.
  const int infinite =
      b.op(Op::eq, {b.op(Op::abs, {max}), b.constant(std::numeric_limits<double>::infinity())}, DType::boolean);
  const int shift = b.op(Op::select, {infinite, b.constant(0), max});
  const int sum = b.reduce(ReduceKind::sum, b.op(Op::exp, {b.op(Op::sub, {x, shift})}), 1);
  b.output(b.op(Op::add, {b.op(Op::log, {sum}), shift}), DType::f32, {rows}, b.at({{0, 1}}), true);
  return {"logsumexp", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

inline Sample log_softmax(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::f32, {rows, cols}), full);
  const int shifted = b.op(Op::sub, {x, b.reduce(ReduceKind::max, x, 0)});
  const int sum = b.reduce(ReduceKind::sum, b.op(Op::exp, {shifted}), 1);
  b.output(b.op(Op::sub, {shifted, b.op(Op::log, {sum})}), DType::f32, {rows, cols}, full);
  return {"log_softmax", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// softmax over columns of x + bias (shared by the batch) where column ≤ row, -inf elsewhere
inline Sample bias_causal_softmax(std::int64_t batch, std::int64_t n) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {batch, n, n};
  b.k.inner = 1;
  const auto full = b.at({{0, n * n}, {1, n}, {2, 1}});
  const int x = b.load(b.input(DType::f32, {batch, n, n}), full);
  const int bias = b.load(b.input(DType::f32, {n, n}), b.at({{1, n}, {2, 1}}));
  const int keep = b.op(Op::le, {b.index(b.at({{2, 1}})), b.index(b.at({{1, 1}}))}, DType::boolean);
  const int masked =
      b.op(Op::select, {keep, b.op(Op::add, {x, bias}), b.constant(-std::numeric_limits<double>::infinity())});
  const int e = b.op(Op::exp, {b.op(Op::sub, {masked, b.reduce(ReduceKind::max, masked, 0)})});
  b.output(b.op(Op::div, {e, b.reduce(ReduceKind::sum, e, 1)}), DType::f32, {batch, n, n}, full);
  return {"bias_causal_softmax", {{"batch", batch}, {"n", n}}, std::move(b.k)};
}

/// Attention scores: softmax over the last dimension of x / 8 + bias of the head, -inf where column > row
inline Sample biased_scores(std::int64_t batch, std::int64_t heads, std::int64_t n) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {batch, heads, n, n};
  b.k.inner = 1;
  const auto full = b.at({{0, heads * n * n}, {1, n * n}, {2, n}, {3, 1}});
  const std::vector<std::int64_t> shape = {batch, heads, n, n};
  const int x = b.load(b.input(DType::f32, shape), full);
  const int bias = b.load(b.input(DType::f32, {heads, n, n}), b.at({{1, n * n}, {2, n}, {3, 1}}));
  const int keep = b.op(Op::ge, {b.index(b.at({{2, 1}, {3, -1}})), b.constant(0, DType::i64)}, DType::boolean);
  const int masked = b.op(
      Op::select, {b.op(Op::logical_not, {keep}, DType::boolean), b.constant(-std::numeric_limits<double>::infinity()),
                   b.op(Op::add, {b.op(Op::mul, {x, b.constant(0.125)}), bias})});
  const int e = b.op(Op::exp, {b.op(Op::sub, {masked, b.reduce(ReduceKind::max, masked, 0)})});
  b.output(b.op(Op::div, {e, b.reduce(ReduceKind::sum, e, 1)}), DType::f32, shape, full);
  return {"biased_scores", {{"batch", batch}, {"heads", heads}, {"n", n}}, std::move(b.k)};
}

/// Softmax over the last dimension of x / 8, with -1e9 where a mask in memory or the sequence's length hides the column
inline Sample hidden_scores(std::int64_t batch, std::int64_t n, DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {batch, n, n};
  b.k.inner = 1;
  const auto full = b.at({{0, n * n}, {1, n}, {2, 1}});
  const int x = b.load(b.input(dtype, {batch, n, n}), full);
  const int hidden = b.load(b.input(DType::boolean, {n, n}), b.at({{1, n}, {2, 1}}));
  const int length = b.load(b.input(DType::i64, {batch}), b.at({{0, 1}}));
  const int past = b.op(Op::ge, {b.index(b.at({{2, 1}})), length}, DType::boolean);
  const int none = b.constant(-1e9);
  const int scaled = b.op(Op::mul, {dtype == DType::f32 ? x : b.op(Op::cast, {x}), b.constant(0.125)});
  const int masked = b.op(Op::select, {past, none, b.op(Op::select, {hidden, none, scaled})});
  const int e = b.op(Op::exp, {b.op(Op::sub, {masked, b.reduce(ReduceKind::max, masked, 0)})});
  b.output(b.op(Op::div, {e, b.reduce(ReduceKind::sum, e, 1)}), dtype, {batch, n, n}, full);
  return {"hidden_scores", {{"batch", batch}, {"n", n}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// (x - mean) / std of each row, unbiased, times a gain by column
inline Sample standardize_gain(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::f32, {rows, cols}), full);
  const int gain = b.load(b.input(DType::f32, {cols}), b.at({{1, 1}}));
  const int mean = b.op(Op::div, {b.reduce(ReduceKind::sum, x, 0), b.constant(static_cast<double>(cols))});
  const int centred = b.op(Op::sub, {x, mean});
  const int squares = b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1);
  const int variance = b.op(Op::div, {squares, b.constant(static_cast<double>(cols - 1))});
  const int std = b.op(Op::sqrt, {b.op(Op::add, {variance, b.constant(1e-5)})});
  b.output(b.op(Op::mul, {b.op(Op::div, {centred, std}), gain}), DType::f32, {rows, cols}, full);
  return {"standardize_gain", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// (x - mean) / std of each row, unbiased
inline Sample standardize(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::f32, {rows, cols}), full);
  const int length = b.constant(static_cast<double>(cols));
  const int mean = b.op(Op::div, {b.reduce(ReduceKind::sum, x, 0), length});
  const int centred = b.op(Op::sub, {x, mean});
  const int squares = b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1);
  const int std = b.op(Op::sqrt, {b.op(Op::div, {squares, b.constant(static_cast<double>(cols - 1))})});
  b.output(b.op(Op::div, {centred, std}), DType::f32, {rows, cols}, full);
  return {"standardize", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

inline Sample layer_norm(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(dtype, {rows, cols}), full);
  const int weight = b.load(b.input(dtype, {cols}), b.at({{1, 1}}));
  const int bias = b.load(b.input(dtype, {cols}), b.at({{1, 1}}));
  const int scale = b.constant(1.0 / static_cast<double>(cols));
  const int mean = b.op(Op::mul, {b.reduce(ReduceKind::sum, x, 0), scale});
  const int centred = b.op(Op::sub, {x, mean});
  const int var = b.op(Op::mul, {b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1), scale});
  const int rstd = b.op(Op::rsqrt, {b.op(Op::add, {var, b.constant(1e-5)})});
  const int y = b.op(Op::fma, {b.op(Op::mul, {centred, rstd}), weight, bias});
  b.output(y, dtype, {rows, cols}, full);
  b.output(mean, DType::f32, {rows}, b.at({{0, 1}}), true);
  return {"layer_norm", {{"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

inline Sample rms_norm(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(dtype, {rows, cols}), full);
  const int weight = b.load(b.input(dtype, {cols}), b.at({{1, 1}}));
  const int mean =
      b.op(Op::mul, {b.reduce(ReduceKind::sum, b.op(Op::mul, {x, x}), 0), b.constant(1.0 / static_cast<double>(cols))});
  const int rstd = b.op(Op::rsqrt, {b.op(Op::add, {mean, b.constant(1e-6)})});
  b.output(b.op(Op::mul, {b.op(Op::mul, {x, rstd}), weight}), dtype, {rows, cols}, full);
  return {"rms_norm", {{"rows", rows}, {"cols", cols}, {"dtype", code(dtype)}}, std::move(b.k)};
}

inline Sample l2_norm(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const auto full = b.at({{0, cols}, {1, 1}});
  const int x = b.load(b.input(DType::f32, {rows, cols}), full);
  const int norm = b.op(Op::sqrt, {b.reduce(ReduceKind::sum, b.op(Op::mul, {x, x}), 0)});
  b.output(b.op(Op::div, {x, norm}), DType::f32, {rows, cols}, full);
  return {"l2_norm", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// sum (f64), max and any(x > 2.5) of each row in one sweep
inline Sample row_stats(std::int64_t rows, std::int64_t cols) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const int x = b.load(b.input(DType::f32, {rows, cols}), b.at({{0, cols}, {1, 1}}));
  const int wide = b.op(Op::cast, {x}, DType::f64);
  const int sum = b.reduce(ReduceKind::sum, wide, 0, DType::f64);
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int above = b.op(Op::gt, {x, b.constant(2.5)}, DType::boolean);
  const int any = b.reduce(ReduceKind::any, above, 0, DType::boolean);
  b.output(sum, DType::f64, {rows}, b.at({{0, 1}}), true);
  b.output(max, DType::f32, {rows}, b.at({{0, 1}}), true);
  b.output(any, DType::boolean, {rows}, b.at({{0, 1}}), true);
  return {"row_stats", {{"rows", rows}, {"cols", cols}}, std::move(b.k)};
}

/// RMS norm over dim 1 of (n, c, hw): memory runs along an outer variable
inline Sample rms_channels(std::int64_t n, std::int64_t c, std::int64_t hw) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {n, hw, c};
  b.k.inner = 1;
  const auto full = b.at({{0, c * hw}, {1, 1}, {2, hw}});
  const int x = b.load(b.input(DType::f32, {n, c, hw}), full);
  const int mean =
      b.op(Op::mul, {b.reduce(ReduceKind::sum, b.op(Op::mul, {x, x}), 0), b.constant(1.0 / static_cast<double>(c))});
  const int rms = b.op(Op::sqrt, {b.op(Op::add, {mean, b.constant(1e-5)})});
  b.output(b.op(Op::div, {x, rms}), DType::f32, {n, c, hw}, full);
  b.output(rms, DType::f32, {n, hw}, b.at({{0, hw}, {1, 1}}), true);
  return {"rms_channels", {{"n", n}, {"c", c}, {"hw", hw}}, std::move(b.k)};
}

/// Group norm: rows (n, g), inner (c/g, hw), weight by channel
inline Sample group_norm(std::int64_t n, std::int64_t groups, std::int64_t per_group, std::int64_t hw) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {n, groups, per_group, hw};
  b.k.inner = 2;
  const std::int64_t row = per_group * hw;
  const auto full = b.at({{0, groups * row}, {1, row}, {2, hw}, {3, 1}});
  const auto channel = b.at({{1, per_group}, {2, 1}});
  const std::vector<std::int64_t> shape = {n, groups * per_group, hw};
  const int x = b.load(b.input(DType::f32, shape), full);
  const int weight = b.load(b.input(DType::f32, {groups * per_group}), channel);
  const int bias = b.load(b.input(DType::f32, {groups * per_group}), channel);
  const int scale = b.constant(1.0 / static_cast<double>(row));
  const int mean = b.op(Op::mul, {b.reduce(ReduceKind::sum, x, 0), scale});
  const int centred = b.op(Op::sub, {x, mean});
  const int var = b.op(Op::mul, {b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1), scale});
  const int rstd = b.op(Op::rsqrt, {b.op(Op::add, {var, b.constant(1e-5)})});
  b.output(b.op(Op::fma, {b.op(Op::mul, {centred, rstd}), weight, bias}), DType::f32, shape, full);
  return {"group_norm", {{"n", n}, {"groups", groups}, {"per_group", per_group}, {"hw", hw}}, std::move(b.k)};
}

/// Of the logistic function of x and a shift a channel: what is folded is dear, and is made of what vectors share.
inline Sample activated_group_norm(std::int64_t n, std::int64_t groups, std::int64_t per_group, std::int64_t hw) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {n, groups, per_group, hw};
  b.k.inner = 2;
  const std::int64_t row = per_group * hw;
  const auto full = b.at({{0, groups * row}, {1, row}, {2, hw}, {3, 1}});
  const auto channel = b.at({{1, per_group}, {2, 1}});
  const std::vector<std::int64_t> shape = {n, groups * per_group, hw};
  const int data = b.load(b.input(DType::f32, shape), full);
  const int shift = b.load(b.input(DType::f32, {groups * per_group}), channel);
  const int x = b.op(Op::sigmoid, {b.op(Op::add, {data, shift})});
  const int weight = b.load(b.input(DType::f32, {groups * per_group}), channel);
  const int bias = b.load(b.input(DType::f32, {groups * per_group}), channel);
  const int scale = b.constant(1.0 / static_cast<double>(row));
  const int mean = b.op(Op::mul, {b.reduce(ReduceKind::sum, x, 0), scale});
  const int centred = b.op(Op::sub, {x, mean});
  const int var = b.op(Op::mul, {b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1), scale});
  const int rstd = b.op(Op::rsqrt, {b.op(Op::add, {var, b.constant(1e-5)})});
  b.output(b.op(Op::fma, {b.op(Op::mul, {centred, rstd}), weight, bias}), DType::f32, shape, full);
  return {"activated_group_norm", {{"n", n}, {"groups", groups}, {"per_group", per_group}, {"hw", hw}}, std::move(b.k)};
}

/// Small ones, of every kind and awkward sizes: fast enough to emulate.
/// Pairs of neighbours turned by an angle each, as an interleaved rotary embedding does, of rows that come from two
/// tensors: (x₀, x₁) · cos + (−x₁, x₀) · sin.
inline Sample interleaved(std::int64_t rows, std::int64_t first, std::int64_t heads, std::int64_t pairs,
                          DType dtype = DType::bf16) {
  Build b;
  b.k.space.extents = {rows, heads, pairs, 2};
  const std::int64_t features = 2 * pairs, row = heads * features;
  const int one = b.input(dtype, {first, heads, features}), other = b.input(dtype, {rows - first, heads, features});
  const int cosines = b.input(DType::f32, {rows, features}), sines = b.input(DType::f32, {rows, features});
  const IndexExpr half = b.at({{3, 1}}), line = b.at({{0, 1}});
  const int from_first =
      b.op(Op::lt, {b.index(line), b.constant(static_cast<double>(first), DType::i64)}, DType::boolean);
  // The element at `at` of the pair, for lanes that `where` says.
  const auto element = [&](const IndexExpr& at, const std::vector<ir::Bound>& where) {
    const auto load = [&](int in, std::int64_t before, std::int64_t from, std::int64_t to) {
      std::vector<ir::Bound> all = where;
      all.push_back({line, from, to});
      const int value = b.load(in, ir::add(at, IndexExpr::constant(-before * row), b.k.space), std::move(all));
      return dtype == DType::f32 ? value : b.op(Op::cast, {value});
    };
    const int x = load(one, 0, 0, first), y = load(other, first, first, rows);
    return b.op(Op::select, {from_first, x, y});
  };
  const IndexExpr pair = b.at({{0, row}, {1, features}, {2, 2}});
  const int cos = b.load(cosines, b.at({{0, features}, {2, 2}, {3, 1}}));
  const int straight = b.op(Op::mul, {element(ir::add(pair, half, b.k.space), {}), cos});
  const int is_first = b.op(Op::lt, {b.index(half), b.constant(1, DType::i64)}, DType::boolean);
  const int minus = b.op(Op::neg, {element(ir::add(pair, IndexExpr::constant(1), b.k.space), {{half, 0, 1}})});
  const int turned = b.op(Op::select, {is_first, minus, element(pair, {{half, 1, 2}})});
  const int sin = b.load(sines, b.at({{0, features}, {2, 2}, {3, 1}}));
  const int sum = b.op(Op::add, {straight, b.op(Op::mul, {turned, sin})});
  b.output(sum, dtype, {rows, heads, features}, ir::add(pair, half, b.k.space));
  return {"interleaved",
          {{"rows", rows}, {"first", first}, {"heads", heads}, {"pairs", pairs}, {"dtype", code(dtype)}},
          std::move(b.k)};
}

/// A pair each that vectors hold whole, in 16 bits and in 32, and one that they do not.
inline std::vector<Sample> interleaved_samples(bool large) {
  if (large) return {interleaved(4608, 512, 24, 64)};
  return {interleaved(6, 2, 3, 16), interleaved(5, 3, 2, 8, DType::f32), interleaved(4, 1, 3, 3, DType::f16)};
}

inline std::vector<Sample> small_samples() {
  std::vector<Sample> out;
  out.push_back(relu(4096));
  out.push_back(relu(1003));
  out.push_back(relu(2051, DType::bf16));
  out.push_back(relu(3));
  out.push_back(bias_gelu(7, 96));
  out.push_back(bias_gelu(5, 33));
  out.push_back(bias_gelu(6, 64, DType::f16));
  out.push_back(transpose_add(40, 72));
  out.push_back(transpose_add(33, 65));
  out.push_back(masked(9, 52));
  out.push_back(masked(5, 31));
  out.push_back(flip_pad(4, 59));
  out.push_back(flip_pad(3, 20));
  out.push_back(integers(5, 22));
  out.push_back(softmax(5, 1024));
  out.push_back(softmax(7, 333));
  out.push_back(softmax(37, 5));
  out.push_back(softmax(3, 1));
  out.push_back(softmax(2, 8192));
  out.push_back(softmax(3, 4097, DType::bf16));
  out.push_back(softmax(70, 259));
  out.push_back(softmax(9, 4104));
  out.push_back(causal_softmax(20, 45));
  out.push_back(bias_causal_softmax(3, 44));
  out.push_back(standardize(35, 131));
  out.push_back(standardize(9, 4101));
  out.push_back(scalar());
  out.push_back(logsumexp(9, 770));
  out.push_back(layer_norm(6, 512));
  out.push_back(layer_norm(5, 259));
  out.push_back(layer_norm(4, 768, DType::f16));
  out.push_back(rms_norm(5, 1000, DType::bf16));
  out.push_back(rms_norm(2, 4103));
  out.push_back(l2_norm(3, 2047));
  out.push_back(l2_norm(2, 16383));
  out.push_back(row_stats(11, 301));
  out.push_back(row_stats(2, 9000));
  out.push_back(rms_channels(2, 24, 60));
  out.push_back(rms_channels(3, 64, 17));
  out.push_back(group_norm(2, 3, 4, 64));
  out.push_back(group_norm(2, 2, 3, 27));
  out.push_back(activated_group_norm(2, 3, 4, 60));
  out.push_back(activated_group_norm(3, 2, 3, 1372));
  return out;
}

/// Small ones with rows enough for persistent blocks, and with operands that some rows share.
inline std::vector<Sample> row_samples() {
  std::vector<Sample> out;
  out.push_back(biased_scores(3, 2, 44));
  out.push_back(biased_scores(2, 2, 21));
  out.push_back(biased_scores(9, 4, 37));
  out.push_back(hidden_scores(5, 96));
  out.push_back(hidden_scores(7, 75, DType::bf16));
  out.push_back(standardize_gain(300, 263));
  out.push_back(standardize_gain(61, 5003));
  out.push_back(l2_norm(270, 41));
  out.push_back(rms_norm(290, 77, DType::bf16));
  out.push_back(layer_norm(140, 4099, DType::f16));
  out.push_back(softmax(300, 1024));
  return out;
}

/// The sizes that speed is judged by.
inline std::vector<Sample> large_samples() {
  std::vector<Sample> out;
  out.push_back(relu(std::int64_t{4096} * 393216));
  out.push_back(relu(std::int64_t{4096} * 393216, DType::bf16));
  out.push_back(bias_gelu(16384, 8192));
  out.push_back(bias_gelu(16384, 8191));
  out.push_back(transpose_add(16384, 16384));
  out.push_back(masked(16384, 16384));
  out.push_back(softmax(4096, 393216));
  out.push_back(softmax(65536, 1024));
  out.push_back(softmax(32768, 8192, DType::bf16));
  out.push_back(logsumexp(4096, 128256));
  out.push_back(layer_norm(65536, 4096));
  out.push_back(layer_norm(65536, 4096, DType::bf16));
  out.push_back(rms_norm(32768, 8192, DType::bf16));
  out.push_back(rms_norm(16384, 16384));
  out.push_back(l2_norm(32768, 65535));
  out.push_back(row_stats(16384, 32768));
  out.push_back(rms_channels(112, 64, 262144));
  out.push_back(group_norm(112, 8, 8, 262144));
  out.push_back(group_norm(112, 64, 1, 262144));
  out.push_back(group_norm(64, 8, 8, 262144));
  out.push_back(softmax(3500000, 1000));
  out.push_back(log_softmax(8192, 131072));
  out.push_back(bias_causal_softmax(256, 2048));
  out.push_back(standardize(32768, 50257));
  out.push_back(biased_scores(16, 16, 2048));
  out.push_back(hidden_scores(128, 4096, DType::bf16));
  out.push_back(standardize_gain(32768, 50257));
  out.push_back(layer_norm(32768, 16384));
  out.push_back(rms_norm(131072, 8192, DType::bf16));
  return out;
}

}  // namespace planish::codegen::samples
