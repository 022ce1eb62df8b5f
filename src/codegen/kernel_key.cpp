#include "codegen/kernel_key.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <vector>

namespace planish::codegen {
namespace {

// A place in one of these lists is what stands in a key. New ones go to the end; none is ever moved or taken away.
// Kinds of kernels, folds and scans have their numbers in their tables.
constexpr std::array operators{
    Op::constant,    Op::load,       Op::index,       Op::reduced,    Op::scanned,     Op::cast,        Op::neg,
    Op::abs,         Op::sign,       Op::ceil,        Op::floor,      Op::round_even,  Op::trunc,       Op::frac,
    Op::reciprocal,  Op::sqrt,       Op::rsqrt,       Op::exp,        Op::exp2,        Op::expm1,       Op::log,
    Op::log2,        Op::log10,      Op::log1p,       Op::sin,        Op::cos,         Op::tan,         Op::asin,
    Op::acos,        Op::atan,       Op::sinh,        Op::cosh,       Op::tanh,        Op::asinh,       Op::acosh,
    Op::atanh,       Op::erf,        Op::erfc,        Op::sigmoid,    Op::logical_not, Op::bitwise_not, Op::isnan,
    Op::isinf,       Op::isfinite,   Op::relu,        Op::add,        Op::sub,         Op::mul,         Op::div,
    Op::floor_div,   Op::trunc_div,  Op::remainder,   Op::fmod,       Op::pow,         Op::atan2,       Op::maximum,
    Op::minimum,     Op::fmax,       Op::fmin,        Op::hypot,      Op::copysign,    Op::eq,          Op::ne,
    Op::lt,          Op::le,         Op::gt,          Op::ge,         Op::logical_and, Op::logical_or,  Op::logical_xor,
    Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor, Op::shift_left, Op::shift_right, Op::select,      Op::fma};
constexpr std::array all_cells{Cell::lstm, Cell::gru, Cell::tanh, Cell::relu};
constexpr std::array atoms{ir::Atom::Kind::variable, ir::Atom::Kind::div, ir::Atom::Kind::mod};

/// Each of an enumeration's values, of which `last` is the last, once.
template <typename T, std::size_t count>
constexpr bool complete(const std::array<T, count>& list, T last) {
  if (count != static_cast<std::size_t>(last) + 1) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::ranges::count(list, static_cast<T>(i)) != 1) return false;
  }
  return true;
}
static_assert(complete(operators, Op::fma));
static_assert(complete(all_cells, Cell::relu));
static_assert(complete(atoms, ir::Atom::Kind::mod));

class Writer {
 public:
  /// Little endian, eight bytes: a key is hashed, so that its length matters little.
  void number(std::int64_t value) {
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  void numbers(const std::vector<std::int64_t>& values) {
    count(values);
    for (const std::int64_t v : values) number(v);
  }
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    out_ += value;
  }
  template <typename Sequence>
  void count(const Sequence& values) {
    number(static_cast<std::int64_t>(values.size()));
  }
  template <typename T, std::size_t n>
  void kind(const std::array<T, n>& list, T value) {
    number(std::ranges::find(list, value) - list.begin());
  }
  /// By the name that documents have for it, which is a format.
  void dtype(DType value) { text(name(value)); }

  void index(const ir::IndexExpr& e) {
    number(e.constant_term());
    count(e.terms());
    for (const ir::IndexExpr::Term& term : e.terms()) {
      number(term.coefficient);
      kind(atoms, term.atom.kind);
      if (term.atom.kind == ir::Atom::Kind::variable) {
        number(term.atom.variable);
      } else {
        number(term.atom.divisor);
        index(*term.atom.inner);
      }
    }
  }
  void bounds(const std::vector<ir::Bound>& where) {
    count(where);
    for (const ir::Bound& bound : where) {
      index(bound.e);
      number(bound.lo);
      number(bound.hi);
    }
  }
  /// What a constant is, or a load outside of its bounds. By its bits: −0 is another number than 0.
  void literal(const Node& node) {
    number(is_floating(node.dtype) ? std::bit_cast<std::int64_t>(node.value) : node.bits);
  }
  /// Only what the operator has: the rest of a node is not looked at by anybody, and may hold anything.
  void node(const Node& node) {
    kind(operators, node.op);
    dtype(node.dtype);
    count(node.args);
    for (const int arg : node.args) number(arg);
    number(node.rounds);
    switch (node.op) {
      case Op::constant:
        literal(node);
        break;
      case Op::load:
        number(node.input);
        index(node.index);
        numbers(node.strides);
        numbers(node.limits);
        bounds(node.where);
        if (!node.where.empty()) literal(node);
        break;
      case Op::index:
        index(node.index);
        break;
      case Op::reduced:
        number(node.reduction);
        break;
      case Op::scanned:
        number(node.scan);
        number(node.exclusive);
        number(node.position);
        break;
      default:
        break;
    }
  }
  void reduction(const Reduction& r) {
    number(info(r.kind).key);
    number(r.arg);
    dtype(r.accumulate);
    number(r.phase);
    number(r.at);
    number(r.across);
    number(r.part);
    if (ranks(r.kind)) number(r.rank);
  }
  void scan(const Scan& s) {
    number(info(s.kind).key);
    number(s.arg);
    dtype(s.accumulate);
    number(s.at);
  }
  void input(const Input& in) {
    dtype(in.dtype);
    numbers(in.shape);
    numbers(in.strides);
  }
  void output(const Output& out) {
    number(out.node);
    dtype(out.dtype);
    numbers(out.shape);
    numbers(out.strides);
    index(out.index);
    number(out.per_row);
    number(out.per_column);
    number(out.per_part);
    number(out.folded);
    number(info(out.fold).key);
    bounds(out.where);
    if (!out.writes_places()) return;  // the anchor says whether there are such
    count(out.args);
    for (const int arg : out.args) number(arg);
    numbers(out.arg_strides);
    numbers(out.arg_limits);
  }
  void kernel(const Kernel& k) {
    number(kernel_key_version);
    number(info(k.anchor).key);
    numbers(k.space.extents);
    number(k.inner);
    number(k.across);
    number(k.parts);
    number(k.reversed);
    each(k.inputs, &Writer::input);
    each(k.nodes, &Writer::node);
    each(k.reductions, &Writer::reduction);
    each(k.scans, &Writer::scan);
    each(k.outputs, &Writer::output);
    if (k.recurrence) recurrence(*k.recurrence);
  }
  void operand(const Recurrence::Operand& o) {
    number(o.input);
    number(o.offset);
    numbers(o.strides);
  }
  void result(const Recurrence::Result& r) {
    number(r.output);
    numbers(r.strides);
  }
  void weights(const Recurrence::Weights& w) {
    for (const auto* one : {&w.input, &w.hidden, &w.input_bias, &w.hidden_bias}) operand(*one);
  }
  void recurrence(const Recurrence& r) {
    kind(all_cells, r.cell);
    for (const std::int64_t size : {r.steps, r.batch, r.width, r.hidden}) number(size);
    number(r.layers);
    number(r.directions);
    for (const auto* one : {&r.x, &r.h0, &r.c0}) operand(*one);
    each(r.weights, &Writer::weights);
    for (const auto* one : {&r.all, &r.last_h, &r.last_c}) result(*one);
  }
  std::string take() && { return std::move(out_); }

 private:
  template <typename T>
  void each(const std::vector<T>& values, void (Writer::*write)(const T&)) {
    count(values);
    for (const T& value : values) (this->*write)(value);
  }

  std::string out_;
};

}  // namespace

std::string kernel_key_bytes(const Kernel& kernel) {
  Writer writer;
  writer.kernel(kernel);
  return std::move(writer).take();
}

}  // namespace planish::codegen
