#pragma once

#include <vector>

#include "sample_kernels.h"

/// Running values written by hand.
namespace planish::codegen::samples {

/// A running value of `scan`, the one before it with `exclusive`, and its position.
inline int running(Build& b, int scan, DType dtype, bool exclusive = false, bool position = false) {
  Node node;
  node.op = Op::scanned;
  node.dtype = dtype;
  node.scan = scan;
  node.exclusive = exclusive;
  node.position = position;
  b.k.nodes.push_back(std::move(node));
  return static_cast<int>(b.k.nodes.size()) - 1;
}

/// A scan kernel over dim 1 of (slabs, length, cols), cols = 1 for rows; `full` is where its elements lie.
inline IndexExpr scan_space(Build& b, std::int64_t slabs, std::int64_t length, std::int64_t cols, bool reversed) {
  b.k.anchor = Anchor::scan;
  b.k.inner = 1;
  b.k.reversed = reversed;
  if (cols == 1) {
    b.k.space.extents = {slabs, length};
    return b.at({{0, length}, {1, 1}});
  }
  b.k.space.extents = {slabs, cols, length};
  return b.at({{0, length * cols}, {1, 1}, {2, cols}});
}

inline std::vector<std::int64_t> scan_shape(std::int64_t slabs, std::int64_t length, std::int64_t cols) {
  return cols == 1 ? std::vector<std::int64_t>{slabs, length} : std::vector<std::int64_t>{slabs, length, cols};
}

/// cumsum(x · x) · 0.5 + x, or from the end
inline Sample cumsum(std::int64_t slabs, std::int64_t length, std::int64_t cols = 1, bool reversed = false,
                     DType dtype = DType::f32) {
  Build b;
  const auto full = scan_space(b, slabs, length, cols, reversed);
  const auto shape = scan_shape(slabs, length, cols);
  const DType compute = dtype == DType::f64 || dtype == DType::i64 ? dtype : DType::f32;
  const int x = b.load(b.input(dtype, shape), full);
  b.k.scans.push_back({ScanKind::sum, b.op(Op::mul, {x, x}, compute), compute, -1});
  const int sum = running(b, 0, compute);
  b.output(b.op(Op::add, {compute == DType::i64 ? sum : b.op(Op::mul, {sum, b.constant(0.5, compute)}, compute), x},
                compute),
           dtype, shape, full);
  return {"cumsum",
          {{"slabs", slabs}, {"length", length}, {"cols", cols}, {"reversed", reversed}, {"dtype", code(dtype)}},
          std::move(b.k)};
}

/// cumsum(x) alone: what only moves memory
inline Sample plain_cumsum(std::int64_t slabs, std::int64_t length, std::int64_t cols = 1, bool reversed = false,
                           DType dtype = DType::f32) {
  Build b;
  const auto full = scan_space(b, slabs, length, cols, reversed);
  const auto shape = scan_shape(slabs, length, cols);
  const int x = b.load(b.input(dtype, shape), full);
  const DType compute = dtype == DType::f64 || dtype == DType::i64 ? dtype : DType::f32;
  b.k.scans.push_back({ScanKind::sum, x, compute, -1});
  b.output(running(b, 0, compute), dtype, shape, full);
  return {"plain_cumsum",
          {{"slabs", slabs}, {"length", length}, {"cols", cols}, {"reversed", reversed}, {"dtype", code(dtype)}},
          std::move(b.k)};
}

/// Every kind of scan of one input: exclusive sum, product of 1 + x/100, log_sum_exp, max with position, min
inline Sample scans(std::int64_t slabs, std::int64_t length, std::int64_t cols = 1, bool reversed = false) {
  Build b;
  const auto full = scan_space(b, slabs, length, cols, reversed);
  const auto shape = scan_shape(slabs, length, cols);
  const int last = cols == 1 ? 1 : 2;
  const int x = b.load(b.input(DType::f32, shape), full);
  const int factor = b.op(Op::add, {b.op(Op::mul, {x, b.constant(0.01)}), b.constant(1)});
  const int at = b.index(reversed ? b.at({{last, -1}}, length - 1) : b.at({{last, 1}}));
  b.k.scans.push_back({ScanKind::sum, x, DType::f32, -1});
  b.k.scans.push_back({ScanKind::product, b.op(Op::cast, {factor}, DType::f64), DType::f64, -1});
  b.k.scans.push_back({ScanKind::log_sum_exp, x, DType::f32, -1});
  b.k.scans.push_back({ScanKind::max, x, DType::f32, at});
  b.k.scans.push_back({ScanKind::min, x, DType::f32, -1});
  b.output(running(b, 0, DType::f32, true), DType::f32, shape, full);
  b.output(running(b, 1, DType::f64), DType::f32, shape, full);
  b.output(running(b, 2, DType::f32), DType::f32, shape, full);
  b.output(running(b, 3, DType::f32), DType::f32, shape, full);
  b.output(running(b, 3, DType::i64, false, true), DType::i64, shape, full);
  b.output(running(b, 4, DType::f32), DType::f32, shape, full);
  return {"scans", {{"slabs", slabs}, {"length", length}, {"cols", cols}, {"reversed", reversed}}, std::move(b.k)};
}

/// Integers: sum of booleans in i64, running max of i32 with its position, running min of i64
inline Sample integer_scans(std::int64_t slabs, std::int64_t length, std::int64_t cols = 1, bool reversed = false) {
  Build b;
  const auto full = scan_space(b, slabs, length, cols, reversed);
  const auto shape = scan_shape(slabs, length, cols);
  const int last = cols == 1 ? 1 : 2;
  const int x = b.load(b.input(DType::i32, shape), full);
  const int above = b.op(Op::cast, {b.op(Op::gt, {x, b.constant(0, DType::i32)}, DType::boolean)}, DType::i64);
  const int at = b.index(reversed ? b.at({{last, -1}}, length - 1) : b.at({{last, 1}}));
  b.k.scans.push_back({ScanKind::sum, above, DType::i64, -1});
  b.k.scans.push_back({ScanKind::max, x, DType::i32, at});
  b.k.scans.push_back({ScanKind::min, b.op(Op::cast, {x}, DType::i64), DType::i64, -1});
  b.output(running(b, 0, DType::i64), DType::i64, shape, full);
  b.output(running(b, 1, DType::i32), DType::i32, shape, full);
  b.output(running(b, 1, DType::i64, false, true), DType::i64, shape, full);
  b.output(running(b, 2, DType::i64), DType::i64, shape, full);
  return {
      "integer_scans", {{"slabs", slabs}, {"length", length}, {"cols", cols}, {"reversed", reversed}}, std::move(b.k)};
}

/// cumsum(exp(x - max)) / Σ exp(x - max), and the sum: two reductions before the scan
inline Sample cumulative_softmax(std::int64_t rows, std::int64_t length) {
  Build b;
  const auto full = scan_space(b, rows, length, 1, false);
  const int x = b.load(b.input(DType::f32, {rows, length}), full);
  const int max = b.reduce(ReduceKind::max, x, 0);
  const int e = b.op(Op::exp, {b.op(Op::sub, {x, max})});
  const int sum = b.reduce(ReduceKind::sum, e, 1);
  b.k.scans.push_back({ScanKind::sum, e, DType::f32, -1});
  b.output(b.op(Op::div, {running(b, 0, DType::f32), sum}), DType::f32, {rows, length}, full);
  b.output(sum, DType::f32, {rows}, b.at({{0, 1}}), true);
  return {"cumulative_softmax", {{"rows", rows}, {"length", length}}, std::move(b.k)};
}

/// Small ones: every kind, direction and layout, awkward sizes.
inline std::vector<Sample> scan_samples() {
  std::vector<Sample> out;
  out.push_back(cumsum(5, 1024));
  out.push_back(cumsum(3, 777));
  out.push_back(cumsum(2, 4099, 1, true));
  out.push_back(cumsum(70, 33));
  out.push_back(cumsum(37, 3, 1, true));
  out.push_back(cumsum(4, 2056, 1, false, DType::bf16));
  out.push_back(cumsum(3, 1023, 1, true, DType::f16));
  out.push_back(cumsum(3, 515, 1, false, DType::f64));
  out.push_back(cumsum(2, 130, 1, false, DType::i64));
  out.push_back(cumsum(2, 301, 24));
  out.push_back(cumsum(1, 96, 45, true));
  out.push_back(cumsum(2, 64, 48, false, DType::bf16));
  out.push_back(plain_cumsum(6, 2048, 1, true));
  out.push_back(scans(3, 520));
  out.push_back(scans(3, 333, 1, true));
  out.push_back(scans(2, 90, 20, true));
  out.push_back(integer_scans(4, 260));
  out.push_back(integer_scans(2, 75, 16, true));
  out.push_back(cumulative_softmax(5, 900));
  out.push_back(cumulative_softmax(9, 127));
  return out;
}

/// The sizes that speed is judged by.
inline std::vector<Sample> large_scan_samples() {
  std::vector<Sample> out;
  out.push_back(plain_cumsum(32768, 32768));
  out.push_back(plain_cumsum(32768, 32768, 1, true));
  out.push_back(plain_cumsum(32768, 32767));
  out.push_back(plain_cumsum(32768, 65536, 1, false, DType::bf16));
  out.push_back(plain_cumsum(4194304, 256));
  out.push_back(plain_cumsum(1, 32768, 32768));
  out.push_back(plain_cumsum(64, 131072, 128));
  out.push_back(plain_cumsum(8, 134217728));
  out.push_back(plain_cumsum(1, 1073741827));
  out.push_back(scans(16384, 16384));
  out.push_back(cumulative_softmax(8192, 131072));
  return out;
}

}  // namespace planish::codegen::samples
