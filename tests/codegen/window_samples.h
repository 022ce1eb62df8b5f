#pragma once

#include <vector>

#include "sample_kernels.h"

/// Kernels whose outputs look at a window around their place, as lowering writes them out.
namespace planish::codegen::samples {

/// A square window over the last two dims of x[n, c, h, w].
struct Square {
  std::int64_t taps = 3, stride = 1, dilation = 1, padding = 1;
  std::int64_t out(std::int64_t extent) const {
    return (extent + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  }
};

struct Images {
  std::int64_t n = 1, c = 1, h = 1, w = 1;
};

/// Begins a kernel over (n, c, out(h), out(w)).
inline Build over(const Images& x, const Square& window) {
  Build b;
  b.k.space.extents = {x.n, x.c, window.out(x.h), window.out(x.w)};
  return b;
}

/// The element under tap (i, j); `fill` in the padding.
inline int tap(Build& b, int in, const Images& x, const Square& s, std::int64_t i, std::int64_t j, double fill) {
  const std::int64_t down = i * s.dilation - s.padding, across = j * s.dilation - s.padding;
  std::vector<ir::Bound> where;
  for (const ir::Bound& bound :
       {ir::Bound{b.at({{2, s.stride}}, down), 0, x.h}, ir::Bound{b.at({{3, s.stride}}, across), 0, x.w}}) {
    if (!ir::always(bound, b.k.space)) where.push_back(bound);
  }
  const int one =
      b.load(in, b.at({{0, x.c * x.h * x.w}, {1, x.h * x.w}, {2, s.stride * x.w}, {3, s.stride}}, down * x.w + across),
             std::move(where), fill);
  return b.k.inputs[static_cast<std::size_t>(in)].dtype == DType::f32 ? one : b.op(Op::cast, {one});
}

inline Sample finish(Build b, std::string family, int node, const Images& x, const Square& s, DType dtype) {
  const std::int64_t h = s.out(x.h), w = s.out(x.w);
  b.output(node, dtype, {x.n, x.c, h, w}, b.at({{0, x.c * h * w}, {1, h * w}, {2, w}, {3, 1}}));
  return {std::move(family),
          {{"n", x.n},
           {"h", x.h},
           {"w", x.w},
           {"taps", s.taps},
           {"stride", s.stride},
           {"dilation", s.dilation},
           {"padding", s.padding},
           {"dtype", code(dtype)}},
          std::move(b.k)};
}

/// silu(x ∗ weight + bias), each channel by itself.
inline Sample depthwise(const Images& x, const Square& s = {}, DType dtype = DType::f32) {
  Build b = over(x, s);
  const int in = b.input(dtype, {x.n, x.c, x.h, x.w});
  const int weight = b.input(DType::f32, {x.c, s.taps * s.taps}), bias = b.input(DType::f32, {x.c});
  int sum = -1;
  for (std::int64_t t = 0; t < s.taps * s.taps; ++t) {
    const int product =
        b.op(Op::mul, {tap(b, in, x, s, t / s.taps, t % s.taps, 0), b.load(weight, b.at({{1, s.taps * s.taps}}, t))});
    sum = sum < 0 ? product : b.op(Op::add, {sum, product});
  }
  sum = b.op(Op::add, {sum, b.load(bias, b.at({{1, 1}}))});
  return finish(std::move(b), "depthwise", b.op(Op::mul, {sum, b.op(Op::sigmoid, {sum})}), x, s, dtype);
}

/// √(a² + b² + ε) of two stencils over one image.
inline Sample gradient(const Images& x) {
  const Square s;
  Build b = over(x, s);
  const int in = b.input(DType::f32, {x.n, x.c, x.h, x.w});
  std::vector<int> taps;
  for (std::int64_t t = 0; t < 9; ++t) taps.push_back(tap(b, in, x, s, t / 3, t % 3, 0));
  int length = -1;
  for (int k = 0; k < 2; ++k) {
    const int weight = b.input(DType::f32, {3, 3});
    int sum = -1;
    for (std::int64_t t = 0; t < 9; ++t) {
      const int product = b.op(Op::mul, {taps[static_cast<std::size_t>(t)], b.load(weight, b.at({}, t))});
      sum = sum < 0 ? product : b.op(Op::add, {sum, product});
    }
    const int square = b.op(Op::mul, {sum, sum});
    length = length < 0 ? square : b.op(Op::add, {length, square});
  }
  const int node = b.op(Op::sqrt, {b.op(Op::add, {length, b.constant(1e-6)})});
  return finish(std::move(b), "gradient", node, x, s, DType::f32);
}

/// The maximum of relu(x).
inline Sample max_window(const Images& x, const Square& s, DType dtype = DType::f32) {
  Build b = over(x, s);
  const int in = b.input(dtype, {x.n, x.c, x.h, x.w});
  int best = -1;
  for (std::int64_t t = 0; t < s.taps * s.taps; ++t) {
    const int one = b.op(Op::relu, {tap(b, in, x, s, t / s.taps, t % s.taps, -1)});
    best = best < 0 ? one : b.op(Op::maximum, {best, one});
  }
  return finish(std::move(b), "max_window", best, x, s, dtype);
}

/// What x differs by from the mean of its window, which leaves the padding out: how many elements that is depends on
/// the place.
inline Sample smooth(const Images& x) {
  const Square s;
  Build b = over(x, s);
  const int in = b.input(DType::f32, {x.n, x.c, x.h, x.w});
  int sum = -1;
  for (std::int64_t t = 0; t < 9; ++t) {
    const int one = tap(b, in, x, s, t / 3, t % 3, 0);
    sum = sum < 0 ? one : b.op(Op::add, {sum, one});
  }
  int count = -1;
  for (const auto& [variable, extent] : {std::pair(2, x.h), std::pair(3, x.w)}) {
    const int from = b.op(Op::maximum, {b.index(b.at({{variable, 1}}, -1)), b.constant(0, DType::i64)}, DType::i64);
    const int upto =
        b.op(Op::minimum, {b.index(b.at({{variable, 1}}, 2)), b.constant(static_cast<double>(extent), DType::i64)},
             DType::i64);
    const int some = b.op(Op::sub, {upto, from}, DType::i64);
    count = count < 0 ? some : b.op(Op::mul, {count, some}, DType::i64);
  }
  const int mean = b.op(Op::div, {sum, b.op(Op::cast, {count})});
  const int own = b.load(in, b.at({{0, x.c * x.h * x.w}, {1, x.h * x.w}, {2, x.w}, {3, 1}}));
  return finish(std::move(b), "smooth", b.op(Op::sub, {own, mean}), x, s, DType::f32);
}

/// Heights that groups of rows do and do not divide, widths of whole vectors and odd ones.
inline std::vector<Sample> window_samples() {
  std::vector<Sample> out;
  out.push_back(depthwise({2, 3, 16, 32}));
  out.push_back(depthwise({2, 3, 13, 20}));
  out.push_back(depthwise({2, 2, 11, 15}));
  out.push_back(depthwise({2, 2, 17, 16}, {3, 1, 2, 2}));
  out.push_back(depthwise({2, 2, 15, 24}, {3, 1, 1, 0}));
  out.push_back(depthwise({1, 2, 21, 33}, {5, 2, 1, 2}));
  out.push_back(depthwise({2, 2, 14, 32}, {3, 1, 1, 1}, DType::bf16));
  out.push_back(gradient({3, 1, 19, 64}));
  out.push_back(gradient({2, 1, 8, 8}));
  out.push_back(max_window({2, 2, 23, 32}, {3, 2, 1, 1}));
  out.push_back(max_window({2, 2, 12, 40}, {2, 1, 3, 1}, DType::f16));
  out.push_back(smooth({2, 2, 10, 24}));
  return out;
}

inline std::vector<Sample> large_window_samples() {
  std::vector<Sample> out;
  out.push_back(depthwise({96, 128, 256, 256}));
  out.push_back(gradient({96, 1, 2048, 2048}));
  out.push_back(max_window({96, 64, 512, 512}, {3, 2, 1, 1}));
  out.push_back(smooth({48, 64, 512, 512}));
  return out;
}

}  // namespace planish::codegen::samples
