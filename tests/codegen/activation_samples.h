#pragma once

#include "sample_kernels.h"

/// Kernels whose time may go into functions rather than memory.
namespace planish::codegen::samples {

/// log-sum-exp of cap · tanh(x / cap) along rows
inline Sample soft_cap(std::int64_t rows, std::int64_t cols, std::int64_t cap, DType dtype = DType::bf16) {
  Build b;
  b.k.anchor = Anchor::row;
  b.k.space.extents = {rows, cols};
  b.k.inner = 1;
  const int x = b.load(b.input(dtype, {rows, cols}), b.at({{0, cols}, {1, 1}}));
  const int most = b.constant(static_cast<double>(cap));
  const int y = b.op(Op::mul, {b.op(Op::tanh, {b.op(Op::div, {x, most})}), most});
  const int max = b.reduce(ReduceKind::max, y, 0);
  const int sum = b.reduce(ReduceKind::sum, b.op(Op::exp, {b.op(Op::sub, {y, max})}), 1);
  b.output(b.op(Op::add, {b.op(Op::log, {sum}), max}), DType::f32, {rows}, b.at({{0, 1}}), true);
  return {"soft_cap", {{"rows", rows}, {"cols", cols}, {"cap", cap}, {"dtype", code(dtype)}}, std::move(b.k)};
}

/// x · sigmoid(x) (kind 0), x · tanh(softplus(x)) (1), softplus(x) (2), tanh(x) (3), gelu with tanh (4)
inline Sample activation(std::int64_t n, std::int64_t kind, DType dtype = DType::bf16) {
  Build b;
  b.k.space.extents = {n};
  const int x = b.load(b.input(dtype, {n}), b.at({{0, 1}}));
  const auto softplus = [&] { return b.op(Op::log1p, {b.op(Op::exp, {x})}); };
  int y = x;
  switch (kind) {
    case 0:
      y = b.op(Op::mul, {x, b.op(Op::sigmoid, {x})});
      break;
    case 1:
      y = b.op(Op::mul, {x, b.op(Op::tanh, {softplus()})});
      break;
    case 2: {
      const int large = b.op(Op::gt, {x, b.constant(20)}, DType::boolean);
      y = b.op(Op::select, {large, x, softplus()});
      break;
    }
    case 3:
      y = b.op(Op::tanh, {x});
      break;
    default: {
      const int cube = b.op(Op::mul, {b.op(Op::mul, {x, x}), x});
      const int sum = b.op(Op::add, {x, b.op(Op::mul, {cube, b.constant(0.044715)})});
      const int tanh = b.op(Op::tanh, {b.op(Op::mul, {sum, b.constant(0.7978845608028654)})});
      y = b.op(Op::mul, {b.op(Op::mul, {x, b.constant(0.5)}), b.op(Op::add, {tanh, b.constant(1)})});
    }
  }
  b.output(y, dtype, {n}, b.at({{0, 1}}));
  return {"activation", {{"n", n}, {"kind", kind}, {"dtype", code(dtype)}}, std::move(b.k)};
}

inline std::vector<Sample> activation_samples() {
  std::vector<Sample> out;
  out.push_back(soft_cap(7, 1024, 30));
  out.push_back(soft_cap(6, 777, 5));
  out.push_back(soft_cap(5, 2052, 50, DType::f32));
  for (std::int64_t kind = 0; kind < 5; ++kind) {
    out.push_back(activation(20011, kind, DType::f32));
    out.push_back(activation(5000, kind));
  }
  return out;
}

inline std::vector<Sample> large_activation_samples() {
  std::vector<Sample> out;
  out.push_back(soft_cap(8192, 128256, 30));
  for (std::int64_t kind = 0; kind < 5; ++kind) out.push_back(activation(std::int64_t{1} << 29, kind));
  return out;
}

}  // namespace planish::codegen::samples
