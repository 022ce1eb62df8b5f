#include "codegen/lower/builder.h"

#include <bit>

#include "codegen/node_text.h"

namespace planish::codegen {

DType compute_dtype(DType dtype) {
  return is_narrow(dtype) ? DType::f32 : dtype;
}

DType accumulate_dtype(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

namespace {

/// As torch stores a Python integer in a tensor of this dtype: it wraps (-3 is 253 for u8).
std::int64_t stored(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::boolean:
      return value != 0 ? 1 : 0;
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    case DType::i8:
      return static_cast<std::int8_t>(value);
    case DType::i16:
      return static_cast<std::int16_t>(value);
    case DType::i32:
      return static_cast<std::int32_t>(value);
    default:
      return value;
  }
}

}  // namespace

int Builder::put(Node node) {
  const std::string key = node_text(node);
  const auto [it, fresh] = known_.try_emplace(key, static_cast<int>(nodes_.size()));
  if (fresh) nodes_.push_back(std::move(node));
  return it->second;
}

int Builder::constant(DType dtype, double value) {
  Node node;
  node.op = Op::constant;
  node.dtype = compute_dtype(dtype);
  if (is_floating(node.dtype)) {
    node.value = value;
  } else {
    node.bits = dtype == DType::boolean ? static_cast<std::int64_t>(value != 0)
                                        : stored(dtype, static_cast<std::int64_t>(value));
  }
  return put(std::move(node));
}

int Builder::integer(DType dtype, std::int64_t value) {
  if (is_floating(dtype)) return constant(dtype, static_cast<double>(value));
  Node node;
  node.op = Op::constant;
  node.dtype = dtype;
  node.bits = stored(dtype, value);
  return put(std::move(node));
}

int Builder::index(ir::IndexExpr e) {
  if (e.is_constant()) return integer(DType::i64, e.constant_term());
  Node node;
  node.op = Op::index;
  node.dtype = DType::i64;
  node.index = std::move(e);
  return put(std::move(node));
}

int Builder::load(int input, DType dtype, ir::IndexExpr index, std::vector<ir::Bound> where, double outside) {
  Node node;
  node.op = Op::load;
  node.dtype = dtype;
  node.input = input;
  node.index = std::move(index);
  node.where = std::move(where);
  if (is_floating(dtype)) {
    node.value = outside;
  } else {
    node.bits = stored(dtype, static_cast<std::int64_t>(outside));
  }
  return put(std::move(node));
}

int Builder::gather(int load, std::vector<int> args, std::vector<std::int64_t> strides,
                    std::vector<std::int64_t> limits) {
  Node node = at(load);
  node.args = std::move(args);
  node.strides = std::move(strides);
  node.limits = std::move(limits);
  return put(std::move(node));
}

int Builder::cast(int node, DType dtype, bool rounds) {
  // A value of 8 bits is nowhere kept in more: what is quantised is quantised.
  const bool narrow = is_narrow(dtype);
  rounds = narrow && (rounds || is_float8(dtype));
  const DType to = rounds ? dtype : compute_dtype(dtype);
  const Node from = at(node);
  if (from.dtype == to) return node;
  if (from.op == Op::constant && !narrow && !is_floating(from.dtype) && is_floating(to)) {
    return constant(to, static_cast<double>(from.bits));
  }
  Node result;
  result.op = Op::cast;
  result.dtype = to;
  result.args = {node};
  result.rounds = rounds;
  return put(std::move(result));
}

int Builder::mul_factors(int a, int b) {
  Node node = at(mul(a, b));
  node.rounds = node.op == Op::mul && node.dtype == DType::f32;
  return put(std::move(node));
}

int Builder::as_stored(int node, DType stored) {
  if (!is_narrow(stored)) return node;
  const Node& value = at(node);
  if (value.op == Op::cast && dtype(value.args[0]) == stored) return node;
  return cast(cast(node, stored, true), dtype(node));
}

int Builder::op(Op op, int a) {
  Node node;
  node.op = op;
  node.dtype = dtype(a);
  node.args = {a};
  return put(std::move(node));
}

int Builder::op(Op op, int a, int b) {
  // Exact for every value, NaN included: x·1, x/1 and an integer + 0 (a float's -0 + 0 is +0).
  const Node& right = at(b);
  if (right.op == Op::constant) {
    const bool one = is_floating(right.dtype) ? right.value == 1.0 : right.bits == 1;
    if (one && (op == Op::mul || op == Op::div)) return a;
    if (!is_floating(right.dtype) && right.bits == 0 && (op == Op::add || op == Op::sub)) return a;
    if (is_floating(right.dtype) && std::bit_cast<std::uint64_t>(right.value) == 0 && op == Op::sub) return a;
  }
  Node node;
  node.op = op;
  node.dtype = dtype(a);
  node.args = {a, b};
  return put(std::move(node));
}

int Builder::test(Op op, int a) {
  Node node;
  node.op = op;
  node.dtype = DType::boolean;
  node.args = {a};
  return put(std::move(node));
}

int Builder::test(Op op, int a, int b) {
  Node node;
  node.op = op;
  node.dtype = DType::boolean;
  node.args = {a, b};
  return put(std::move(node));
}

int Builder::select(int condition, int then_node, int else_node) {
  if (then_node == else_node) return then_node;
  const Node& c = at(condition);
  if (c.op == Op::constant) return c.bits != 0 ? then_node : else_node;
  Node node;
  node.op = Op::select;
  node.dtype = dtype(then_node);
  node.args = {condition, then_node, else_node};
  return put(std::move(node));
}

int Builder::reduce(ReduceKind kind, int arg, DType accumulate, int at, Reach reach) {
  return reduced({kind, arg, accumulate, 0, at, reach == Reach::across, reach == Reach::part});
}

int Builder::nth(ReduceKind kind, int arg, int rank, int at) {
  return reduced({kind, arg, compute_dtype(dtype(at < 0 ? arg : at)), 0, at, false, false, rank});
}

int Builder::reduced(const Reduction& reduction) {
  int id = -1;
  for (std::size_t i = 0; i < reductions_.size(); ++i) {
    const Reduction& r = reductions_[i];
    if (r.kind == reduction.kind && r.arg == reduction.arg && r.accumulate == reduction.accumulate &&
        r.at == reduction.at && r.across == reduction.across && r.part == reduction.part && r.rank == reduction.rank)
      id = static_cast<int>(i);
  }
  if (id < 0) {
    id = static_cast<int>(reductions_.size());
    reductions_.push_back(reduction);
  }
  Node node;
  node.op = Op::reduced;
  node.dtype = reduction.accumulate;
  node.reduction = id;
  return put(std::move(node));
}

int Builder::scan(Scan scan, bool exclusive, bool position) {
  int id = -1;
  for (std::size_t i = 0; i < scans_.size(); ++i) {
    Scan& s = scans_[i];
    if (s.kind != scan.kind || s.arg != scan.arg || s.accumulate != scan.accumulate) continue;
    if (s.at >= 0 && scan.at >= 0 && s.at != scan.at) continue;
    s.at = std::max(s.at, scan.at);
    id = static_cast<int>(i);
  }
  if (id < 0) {
    id = static_cast<int>(scans_.size());
    scans_.push_back(scan);
  }
  Node node;
  node.op = Op::scanned;
  node.dtype = position ? DType::i64 : scan.accumulate;
  node.scan = id;
  node.exclusive = exclusive;
  node.position = position;
  return put(std::move(node));
}

}  // namespace planish::codegen
