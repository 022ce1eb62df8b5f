#pragma once

#include <vector>

#include "sample_kernels.h"

/// Kernels that know rows and fold parts of them.
namespace planish::codegen::samples {

inline int reduce_part(Build& b, ReduceKind kind, int arg, int phase, DType accumulate = DType::f32) {
  const int node = b.reduce(kind, arg, phase, accumulate);
  b.k.reductions.back().part = true;
  return node;
}
inline void part_output(Build& b, int node, DType dtype, std::vector<std::int64_t> shape, IndexExpr e) {
  b.output(node, dtype, std::move(shape), std::move(e));
  b.k.outputs.back().per_part = true;
}
/// Variables: rows, parts of a row, elements of a part.
inline Build parts_build(std::vector<std::int64_t> extents, int parts = 1) {
  Build b;
  b.k.anchor = Anchor::segmented_row;
  b.k.inner = static_cast<int>(extents.size()) - 1;
  b.k.space.extents = std::move(extents);
  b.k.parts = parts;
  return b;
}

/// Group norm and SiLU, then the mean of each channel.
inline Sample part_means(std::int64_t n, std::int64_t groups, std::int64_t per_group, std::int64_t hw,
                         DType dtype = DType::f32) {
  Build b;
  b.k.anchor = Anchor::segmented_row;
  b.k.space.extents = {n, groups, per_group, hw};
  b.k.inner = 2;
  b.k.parts = 1;
  const std::int64_t row = per_group * hw, channels = groups * per_group;
  const auto channel = b.at({{1, per_group}, {2, 1}});
  const int x = b.load(b.input(dtype, {n, channels, hw}), b.at({{0, groups * row}, {1, row}, {2, hw}, {3, 1}}));
  const int weight = b.load(b.input(dtype, {channels}), channel);
  const int bias = b.load(b.input(dtype, {channels}), channel);
  const int length = b.constant(static_cast<double>(row));
  const int mean = b.op(Op::div, {b.reduce(ReduceKind::sum, x, 0), length});
  const int centred = b.op(Op::sub, {x, mean});
  const int var = b.op(Op::div, {b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1), length});
  const int rstd = b.op(Op::rsqrt, {b.op(Op::add, {var, b.constant(1e-5)})});
  const int y = b.op(Op::add, {b.op(Op::mul, {b.op(Op::mul, {centred, rstd}), weight}), bias});
  const int silu = b.op(Op::mul, {y, b.op(Op::sigmoid, {y})});
  const int sum = reduce_part(b, ReduceKind::sum, silu, 2);
  part_output(b, b.op(Op::div, {sum, b.constant(static_cast<double>(hw))}), dtype, {n, channels},
              b.at({{0, channels}, {1, per_group}, {2, 1}}));
  return {"part_means",
          {{"n", n}, {"groups", groups}, {"per_group", per_group}, {"hw", hw}, {"dtype", code(dtype)}},
          std::move(b.k)};
}

/// Rows minus their maximum: stored or not, a row's sum, and of each part every kind of fold, one with an epilogue.
inline Sample part_folds(std::int64_t rows, std::int64_t parts, std::int64_t length, bool stored,
                         DType dtype = DType::f32) {
  Build b = parts_build({rows, parts, length});
  const auto whole = b.at({{0, parts * length}, {1, length}, {2, 1}});
  const auto part = b.at({{0, parts}, {1, 1}});
  const int x = b.load(b.input(dtype, {rows, parts, length}), whole);
  const int y = b.op(Op::sub, {x, b.reduce(ReduceKind::max, x, 0)});
  if (stored) b.output(y, dtype, {rows, parts, length}, whole);
  b.output(b.reduce(ReduceKind::sum, y, 1), DType::f32, {rows}, b.at({{0, 1}}), true);
  const int scale = b.load(b.input(DType::f32, {parts}), b.at({{1, 1}}));
  const int shift = b.load(b.input(DType::f32, {rows, parts}), part);
  const int sum = reduce_part(b, ReduceKind::sum, y, 1);
  part_output(b, b.op(Op::add, {b.op(Op::mul, {sum, scale}), shift}), dtype, {rows, parts}, part);
  const int small = b.op(Op::add, {b.op(Op::mul, {x, b.constant(0.001)}), b.constant(1)});
  part_output(b, reduce_part(b, ReduceKind::max, y, 1), dtype, {rows, parts}, part);
  part_output(b, reduce_part(b, ReduceKind::min, x, 0), dtype, {rows, parts}, part);
  part_output(b, reduce_part(b, ReduceKind::product, small, 0), DType::f32, {rows, parts}, part);
  return {"part_folds",
          {{"rows", rows}, {"parts", parts}, {"length", length}, {"stored", stored ? 1 : 0}, {"dtype", code(dtype)}},
          std::move(b.k)};
}

/// Softmax of rows, then sums of parts.
inline Sample softmax_parts(std::int64_t rows, std::int64_t parts, std::int64_t length, DType dtype = DType::f32) {
  Build b = parts_build({rows, parts, length});
  const int x = b.load(b.input(dtype, {rows, parts, length}), b.at({{0, parts * length}, {1, length}, {2, 1}}));
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int e = b.op(Op::exp, {b.op(Op::sub, {x, max})});
  const int y = b.op(Op::div, {e, b.reduce(ReduceKind::sum, e, 1)});
  part_output(b, reduce_part(b, ReduceKind::sum, y, 2), dtype, {rows, parts}, b.at({{0, parts}, {1, 1}}));
  return {
      "softmax_parts", {{"rows", rows}, {"parts", parts}, {"length", length}, {"dtype", code(dtype)}}, std::move(b.k)};
}

inline std::vector<Sample> parts_samples() {
  return {part_means(2, 3, 4, 256),
          part_means(2, 2, 2, 3136),
          part_means(1, 2, 8, 4096),
          part_means(3, 1, 6, 1024, DType::bf16),
          part_folds(5, 4, 512, true),
          part_folds(3, 6, 768, false),
          part_folds(2, 2, 2048, true, DType::f16),
          softmax_parts(7, 4, 64),
          softmax_parts(5, 3, 1088),
          softmax_parts(3, 8, 1280, DType::bf16)};
}

inline std::vector<Sample> large_parts_samples() {
  return {part_means(64, 8, 8, 512 * 512), part_means(128, 8, 8, 512 * 512, DType::bf16),
          part_means(1024, 16, 16, 64 * 64), softmax_parts(65536, 64, 256)};
}

}  // namespace planish::codegen::samples
