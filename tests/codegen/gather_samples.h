#pragma once

#include <vector>

#include "sample_kernels.h"

/// Kernels with loads at places that other inputs name. Index inputs are given values around [0, vocab), some of them
/// outside.
namespace planish::codegen::samples {

/// A load of `in` at e + Σ args[i]·strides[i].
inline int gather(Build& b, int in, IndexExpr e, std::vector<int> args, std::vector<std::int64_t> strides,
                  std::vector<std::int64_t> limits) {
  const int load = b.load(in, std::move(e));
  Node& node = b.k.nodes[static_cast<std::size_t>(load)];
  node.args = std::move(args);
  node.strides = std::move(strides);
  node.limits = std::move(limits);
  return load;
}

/// 2 · table[i]: whole rows of a table.
inline Sample embedding_scale(std::int64_t rows, std::int64_t vocab, std::int64_t width, DType dtype = DType::f32) {
  Build b;
  b.k.space.extents = {rows, width};
  const int i = b.load(b.input(DType::i64, {rows}), b.at({{0, 1}}));
  const int table = b.input(dtype, {vocab, width});
  const int x = gather(b, table, b.at({{1, 1}}), {i}, {width}, {vocab});
  b.output(b.op(Op::mul, {x, b.constant(2)}), dtype, {rows, width}, b.at({{0, width}, {1, 1}}));
  return {"embedding_scale", {{"vocab", vocab}}, std::move(b.k)};
}

/// Rows of a table plus a position, divided by their root mean square.
inline Sample embedding_norm(std::int64_t rows, std::int64_t vocab, std::int64_t width) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, width};
  b.k.inner = 1;
  const auto full = b.at({{0, width}, {1, 1}});
  const int i = b.load(b.input(DType::i64, {rows}), b.at({{0, 1}}));
  const int token = gather(b, b.input(DType::f32, {vocab, width}), b.at({{1, 1}}), {i}, {width}, {vocab});
  const int x = b.op(Op::add, {token, b.load(b.input(DType::f32, {rows, width}), full)});
  const int squares = b.reduce(ReduceKind::sum, b.op(Op::mul, {x, x}), 0);
  const int mean = b.op(Op::mul, {squares, b.constant(1.0 / static_cast<double>(width))});
  b.output(b.op(Op::mul, {x, b.op(Op::rsqrt, {b.op(Op::add, {mean, b.constant(1e-6)})})}), DType::f32, {rows, width},
           full);
  return {"embedding_norm", {{"vocab", vocab}}, std::move(b.k)};
}

/// x[:, i]: every element of a row has its own place.
inline Sample pick_columns(std::int64_t rows, std::int64_t vocab, std::int64_t cols, DType dtype = DType::f32) {
  Build b;
  b.k.space.extents = {rows, cols};
  const int narrow = b.load(b.input(DType::i32, {cols}), b.at({{1, 1}}));
  const int i = b.op(Op::cast, {narrow}, DType::i64);
  const int x = gather(b, b.input(dtype, {rows, vocab}), b.at({{0, vocab}}), {i}, {1}, {vocab});
  b.output(b.op(Op::add, {x, b.constant(1, dtype)}, dtype), dtype, {rows, cols}, b.at({{0, cols}, {1, 1}}));
  return {"pick_columns", {{"vocab", vocab}}, std::move(b.k)};
}

/// logsumexp(x) - x[row, target]: one loss a row.
inline Sample nll_rows(std::int64_t rows, std::int64_t vocab) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, vocab};
  b.k.inner = 1;
  const int in = b.input(DType::f32, {rows, vocab});
  const int x = b.load(in, b.at({{0, vocab}, {1, 1}}));
  const int target = b.load(b.input(DType::i64, {rows}), b.at({{0, 1}}));
  const int own = gather(b, in, b.at({{0, vocab}}), {target}, {1}, {vocab});
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int sum = b.reduce(ReduceKind::sum, b.op(Op::exp, {b.op(Op::sub, {x, max})}), 1);
  b.output(b.op(Op::sub, {b.op(Op::log, {sum}), b.op(Op::sub, {own, max})}), DType::f32, {rows}, b.at({{0, 1}}), true);
  return {"nll_rows", {{"vocab", vocab}}, std::move(b.k)};
}

/// Σ table[i[row, k]] over k: a bag of rows, folded along a variable that places alone depend on.
inline Sample bag(std::int64_t rows, std::int64_t terms, std::int64_t vocab, std::int64_t width) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, width, terms};
  b.k.inner = 1;
  const int i = b.load(b.input(DType::i64, {rows, terms}), b.at({{0, terms}, {2, 1}}));
  const int x = gather(b, b.input(DType::f32, {vocab, width}), b.at({{1, 1}}), {i}, {width}, {vocab});
  b.output(b.reduce(ReduceKind::sum, x, 0), DType::f32, {rows, width}, b.at({{0, width}, {1, 1}}), true);
  return {"bag", {{"vocab", vocab}}, std::move(b.k)};
}

/// Whole numbers at two places each: table[i, j].
inline Sample pairs(std::int64_t count, std::int64_t vocab) {
  Build b;
  b.k.space.extents = {count};
  const int i = b.load(b.input(DType::i64, {count}), b.at({{0, 1}}));
  const int j = b.load(b.input(DType::i64, {count}), b.at({{0, 1}}));
  const int x =
      gather(b, b.input(DType::i32, {vocab, vocab}), IndexExpr::constant(0), {i, j}, {vocab, 1}, {vocab, vocab});
  b.output(x, DType::i32, {count}, b.at({{0, 1}}));
  return {"pairs", {{"vocab", vocab}}, std::move(b.k)};
}

inline std::vector<Sample> gather_samples() {
  std::vector<Sample> out;
  out.push_back(embedding_scale(37, 50, 64));
  out.push_back(embedding_scale(19, 40, 33, DType::bf16));
  out.push_back(embedding_norm(40, 60, 512));
  out.push_back(embedding_norm(23, 30, 261));
  out.push_back(pick_columns(9, 70, 100));
  out.push_back(pick_columns(7, 300, 45, DType::f64));
  out.push_back(nll_rows(21, 770));
  out.push_back(nll_rows(13, 4101));
  out.push_back(bag(6, 9, 40, 48));
  out.push_back(pairs(211, 30));
  return out;
}

}  // namespace planish::codegen::samples
