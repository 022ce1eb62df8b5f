#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/kernel.h"

namespace planish::codegen {

/// Where a half-precision value is computed: f32 for f16 and bf16, every other dtype in itself.
DType compute_dtype(DType dtype);
/// The accumulator of a reduction over such data: f32, f64, or i64.
DType accumulate_dtype(DType dtype);

/// What a reduction folds: rows, what lies across them (row_and_column.h), or parts of them (segments.h).
enum class Reach : std::uint8_t { row, across, part };

/// Grows the scalar DAG of one kernel. Equal nodes are shared; casts to the same dtype and arithmetic on constants of
/// the trivial kinds vanish. Half dtypes appear only as loads and as rounding casts: all arithmetic is in compute
/// dtypes.
class Builder {
 public:
  const Node& at(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  DType dtype(int node) const { return at(node).dtype; }
  std::vector<Node>& nodes() { return nodes_; }
  std::vector<Reduction>& reductions() { return reductions_; }
  std::vector<Scan>& scans() { return scans_; }

  int constant(DType dtype, double value);
  int integer(DType dtype, std::int64_t value);
  int index(ir::IndexExpr e);
  int load(int input, DType dtype, ir::IndexExpr index, std::vector<ir::Bound> where, double outside);
  /// `load` moved by run-time arguments (see Op::load).
  int gather(int load, std::vector<int> args, std::vector<std::int64_t> strides, std::vector<std::int64_t> limits);
  /// To dtype by torch's rules; a half dtype means its compute dtype unless `rounds`.
  int cast(int node, DType dtype, bool rounds = false);
  /// The value that memory of that dtype would hold of it; as it is where that is no half dtype, or it was read so.
  int as_stored(int node, DType stored);
  /// An operation whose result has the dtype of its first argument.
  int op(Op op, int a);
  int op(Op op, int a, int b);
  /// A comparison or test: boolean result.
  int test(Op op, int a);
  int test(Op op, int a, int b);
  int select(int condition, int then_node, int else_node);
  int reduce(ReduceKind kind, int arg, DType accumulate, int at = -1, Reach reach = Reach::row);
  /// Of a kind that ranks(): the element of that rank, or where `at` is a node, its value there.
  int nth(ReduceKind kind, int arg, int rank, int at = -1);
  /// A running value of `scan`, or with `position` its position. A scan that differs only in not looking for positions
  /// is the same one.
  int scan(Scan scan, bool exclusive, bool position);

  // Shorthand for floating arithmetic; `d` operands become constants of a's dtype.
  int add(int a, int b) { return op(Op::add, a, b); }
  int sub(int a, int b) { return op(Op::sub, a, b); }
  int mul(int a, int b) { return op(Op::mul, a, b); }
  int div(int a, int b) { return op(Op::div, a, b); }
  int add(int a, double d) { return add(a, constant(dtype(a), d)); }
  int sub(int a, double d) { return sub(a, constant(dtype(a), d)); }
  /// Of a convolution's factors (Node::rounds).
  int mul_factors(int a, int b);
  int mul(int a, double d) { return mul(a, constant(dtype(a), d)); }
  int div(int a, double d) { return div(a, constant(dtype(a), d)); }
  int like(int a, double d) { return constant(dtype(a), d); }

 private:
  int put(Node node);
  int reduced(const Reduction& reduction);
  std::vector<Node> nodes_;
  std::vector<Reduction> reductions_;
  std::vector<Scan> scans_;
  std::unordered_map<std::string, int> known_;
};

}  // namespace planish::codegen
