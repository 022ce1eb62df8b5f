#pragma once

#include <vector>

#include "column_samples.h"
#include "sample_kernels.h"

/// Kernels that store elements which do not need what is folded of them.
namespace planish::codegen::samples {

/// A (slabs, rows, cols) tensor of which dim 1 or 2 is folded, or (3) everything.
struct Folding {
  Build b;
  IndexExpr full, channel, kept;  ///< places of an element, of its column's parameter, and of a result
  std::vector<std::int64_t> shape, left;
  std::vector<std::pair<std::string, std::int64_t>> parameters;
};

inline Folding folding(std::int64_t slabs, std::int64_t rows, std::int64_t cols, int over, DType dtype) {
  Folding f;
  Build& b = f.b;
  b.k.anchor = Anchor::row;
  f.shape = {slabs, rows, cols};
  if (over == 1) {
    b.k.space.extents = {slabs, cols, rows};
    f.full = b.at({{0, rows * cols}, {1, 1}, {2, cols}});
    f.channel = b.at({{1, 1}});
    f.kept = b.at({{0, cols}, {1, 1}});
    f.left = {slabs, cols};
  } else if (over == 2) {
    b.k.space.extents = {slabs * rows, cols};
    f.full = b.at({{0, cols}, {1, 1}});
    f.channel = b.at({{1, 1}});
    f.kept = b.at({{0, 1}});
    f.left = {slabs, rows};
  } else {
    b.k.space.extents = {slabs * rows, cols};
    f.full = b.at({{0, cols}, {1, 1}});
    f.channel = b.at({{1, 1}});
  }
  b.k.inner = over == 3 ? 2 : 1;
  f.parameters = {{"slabs", slabs}, {"rows", rows}, {"cols", cols}, {"over", over}, {"dtype", code(dtype)}};
  return f;
}

/// relu(x + bias), its sum and its largest value.
inline Sample stored_folds(std::int64_t slabs, std::int64_t rows, std::int64_t cols, int over,
                           DType dtype = DType::f32) {
  Folding f = folding(slabs, rows, cols, over, dtype);
  Build& b = f.b;
  const int x = b.load(b.input(dtype, f.shape), f.full);
  const int bias = b.load(b.input(DType::f32, {cols}), f.channel);
  const int y = b.op(Op::relu, {b.op(Op::add, {x, bias})});
  b.output(y, dtype, f.shape, f.full);
  b.output(b.reduce(ReduceKind::sum, y, 0), DType::f32, f.left, f.kept, true);
  b.output(b.reduce(ReduceKind::max, y, 0), dtype, f.left, f.kept, true);
  return {"stored_folds", std::move(f.parameters), std::move(b.k)};
}

/// x + residual, and its mean and variance: two folds, or one that keeps both.
inline Sample stored_moments(std::int64_t slabs, std::int64_t rows, std::int64_t cols, int over,
                             DType dtype = DType::f32) {
  Folding f = folding(slabs, rows, cols, over, dtype);
  Build& b = f.b;
  const int x = b.load(b.input(dtype, f.shape), f.full);
  const int y = b.op(Op::add, {x, b.load(b.input(dtype, f.shape), f.full)});
  const double count = static_cast<double>(b.k.inner_extent());
  const int mean = b.op(Op::div, {b.reduce(ReduceKind::sum, y, 0), b.constant(count)});
  const int centred = b.op(Op::sub, {y, mean});
  const int squares = b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1);
  b.output(b.op(Op::div, {squares, b.constant(count)}), DType::f32, f.left, f.kept, true);
  b.output(y, dtype, f.shape, f.full);
  b.output(mean, DType::f32, f.left, f.kept, true);
  return {"stored_moments", std::move(f.parameters), std::move(b.k)};
}

/// x · gate, stored as soon as it is folded; x by that sum, stored at the end, which needs the gate no more.
inline Sample stored_twice(std::int64_t slabs, std::int64_t rows, std::int64_t cols, int over,
                           DType dtype = DType::f32) {
  Folding f = folding(slabs, rows, cols, over, dtype);
  Build& b = f.b;
  const int x = b.load(b.input(dtype, f.shape), f.full);
  const int y = b.op(Op::mul, {x, b.load(b.input(dtype, f.shape), f.full)});
  const int sum = b.reduce(ReduceKind::sum, b.op(Op::abs, {y}), 0);
  b.output(b.op(Op::div, {x, b.op(Op::add, {sum, b.constant(1)})}), dtype, f.shape, f.full);
  b.output(y, dtype, f.shape, f.full);
  return {"stored_twice", std::move(f.parameters), std::move(b.k)};
}

/// What is left of x without its mean, stored while its squares are folded.
inline Sample stored_centred(std::int64_t slabs, std::int64_t rows, std::int64_t cols, int over,
                             DType dtype = DType::f32) {
  Folding f = folding(slabs, rows, cols, over, dtype);
  Build& b = f.b;
  const int x = b.load(b.input(dtype, f.shape), f.full);
  const double count = static_cast<double>(b.k.inner_extent());
  const int mean = b.op(Op::div, {b.reduce(ReduceKind::sum, x, 0), b.constant(count)});
  const int centred = b.op(Op::sub, {x, mean});
  b.output(centred, dtype, f.shape, f.full);
  b.output(b.reduce(ReduceKind::sum, b.op(Op::mul, {centred, centred}), 1), DType::f32, f.left, f.kept, true);
  return {"stored_centred", std::move(f.parameters), std::move(b.k)};
}

/// |x|, and where it is largest.
inline Sample stored_position(std::int64_t slabs, std::int64_t rows, std::int64_t cols, int over,
                              DType dtype = DType::f32) {
  Folding f = folding(slabs, rows, cols, over, dtype);
  Build& b = f.b;
  const int x = b.op(Op::abs, {b.load(b.input(dtype, f.shape), f.full)});
  b.output(x, dtype, f.shape, f.full);
  const int at = over == 3 ? b.index(b.at({{0, cols}, {1, 1}})) : b.index(b.at({{over == 1 ? 2 : 1, 1}}));
  const int found = b.reduce(ReduceKind::argmax, x, 0, DType::i64);
  b.k.reductions.back().at = at;
  b.output(found, DType::i64, f.left, f.kept, true);
  return {"stored_position", std::move(f.parameters), std::move(b.k)};
}

/// The gradient of gelu(x + bias), by x and by the bias (over 1), or its other sums.
inline Sample gelu_gradient(std::int64_t slabs, std::int64_t rows, std::int64_t cols, int over,
                            DType dtype = DType::f32) {
  Folding f = folding(slabs, rows, cols, over, dtype);
  Build& b = f.b;
  const int grad = b.load(b.input(dtype, f.shape), f.full);
  const int x = b.load(b.input(dtype, f.shape), f.full);
  const int z = b.op(Op::add, {x, b.load(b.input(dtype, {cols}), f.channel)});
  const int e = b.op(Op::erf, {b.op(Op::mul, {z, b.constant(0.7071067811865476)})});
  const int cdf = b.op(Op::mul, {b.op(Op::add, {e, b.constant(1)}), b.constant(0.5)});
  const int bell = b.op(Op::exp, {b.op(Op::mul, {b.op(Op::mul, {z, z}), b.constant(-0.5)})});
  const int pdf = b.op(Op::mul, {b.op(Op::mul, {bell, b.constant(0.3989422804014327)}), z});
  const int dx = b.op(Op::mul, {grad, b.op(Op::add, {cdf, pdf})});
  b.output(dx, dtype, f.shape, f.full);
  b.output(b.reduce(ReduceKind::sum, dx, 0), dtype, f.left, f.kept, true);
  return {"gelu_gradient", std::move(f.parameters), std::move(b.k)};
}

inline std::vector<Sample> early_samples() {
  std::vector<Sample> out;
  for (const int over : {1, 2, 3}) {
    out.push_back(stored_folds(1, 300, 1000, over));
    out.push_back(stored_folds(3, 37, 45, over));
    out.push_back(stored_folds(2, 70, 264, over, DType::bf16));
    out.push_back(stored_folds(1, 2, 5003, over, DType::f16));
    out.push_back(stored_moments(1, 130, 512, over));
    out.push_back(stored_moments(2, 61, 35, over, DType::bf16));
    out.push_back(stored_twice(1, 90, 320, over));
    out.push_back(stored_twice(2, 41, 66, over, DType::bf16));
    out.push_back(stored_centred(1, 50, 256, over));
    out.push_back(stored_centred(3, 33, 39, over));
    out.push_back(stored_position(2, 45, 130, over));
    out.push_back(gelu_gradient(1, 203, 96, over));
    out.push_back(gelu_gradient(1, 1030, 8, over, DType::bf16));
  }
  // Long enough for teams, where a multiprocessor has little shared memory.
  out.push_back(stored_twice(1, 6, 4100, 2));
  out.push_back(stored_twice(2, 700, 72, 1));
  out.push_back(stored_moments(1, 5, 6000, 2));
  return out;
}

inline std::vector<Sample> large_early_samples() {
  return {gelu_gradient(1, 163840, 4096, 1),  gelu_gradient(1, 163840, 4096, 1, DType::bf16),
          gelu_gradient(1, 163840, 4096, 3),  stored_folds(1, 131072, 4096, 2, DType::bf16),
          stored_folds(1, 131072, 4096, 2),   stored_folds(1, 131072, 4096, 1),
          stored_folds(1, 131072, 4096, 3),   stored_folds(1, 2048, 262144, 2),
          stored_folds(64, 16384, 512, 1),    stored_moments(1, 1024, 262144, 2),
          stored_moments(1, 131072, 2048, 1), stored_twice(1, 1024, 262144, 2),
          stored_centred(1, 131072, 2048, 2)};
}

}  // namespace planish::codegen::samples
