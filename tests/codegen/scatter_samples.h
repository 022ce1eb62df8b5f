#pragma once

#include "sample_kernels.h"

/// A kernel that writes places of a tensor.
namespace planish::codegen::samples {

/// Rows of a table of `rows` become 2 · x, where an index says.
inline Sample scatter_sample(std::int64_t count, std::int64_t rows, std::int64_t width) {
  Build b;
  b.k.anchor = Anchor::scatter;
  b.k.space.extents = {count, width};
  const int at = b.load(b.input(DType::i64, {count}), b.at({{0, 1}}));
  const int x = b.load(b.input(DType::f32, {count, width}), b.at({{0, width}, {1, 1}}));
  b.output(b.op(Op::mul, {x, b.constant(2)}), DType::f32, {rows, width}, b.at({{1, 1}}));
  Output& output = b.k.outputs.back();
  output.base = 0;
  output.args = {at};
  output.arg_strides = {width};
  output.arg_limits = {rows};
  return {"scatter", {{"vocab", rows}}, std::move(b.k)};
}

}  // namespace planish::codegen::samples
