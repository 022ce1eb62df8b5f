#include <cmath>

#include "codegen/lower/lowering.h"
#include "codegen/lower/promote.h"

// One output element from the operands' elements at the same (broadcast) place: torch's arithmetic operators.
namespace planish::codegen {
namespace {

const ir::Arg* first(const Site& s) {
  const ir::Arg* self = s.args.get("self");
  return self != nullptr ? self : s.args.get("input");
}

Result<int> self_as(const Site& s, DType dtype) {
  return s.low.operand(first(s), s.coords, dtype);
}

template <Op op>
Result<int> unary(const Site& s) {
  PLANISH_TRY(const int x, self_as(s, s.out_dtype));
  return s.b.op(op, x);
}

/// floor and friends do nothing to integers.
template <Op op>
Result<int> rounding(const Site& s) {
  PLANISH_TRY(const int x, self_as(s, s.out_dtype));
  return is_floating(s.b.dtype(x)) ? s.b.op(op, x) : x;
}

/// To the nearest, ties to even; with `decimals` as torch does it: scaled by a power of ten, rounded, scaled back.
Result<int> round(const Site& s) {
  const std::int64_t decimals = s.args.integer("decimals").value_or(0);
  if (decimals == 0) return rounding<Op::round_even>(s);
  PLANISH_TRY(const int x, self_as(s, s.out_dtype));
  if (!is_floating(s.b.dtype(x))) return unsupported("integers rounded to decimals");
  const double power = std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
  const int ten = s.b.constant(s.b.dtype(x), power);
  if (decimals > 0) return s.b.op(Op::div, s.b.op(Op::round_even, s.b.mul(x, ten)), ten);
  return s.b.mul(s.b.op(Op::round_even, s.b.op(Op::div, x, ten)), ten);
}

template <Op op>
Result<int> float_class(const Site& s) {
  PLANISH_TRY(const int x, self_as(s, s.low.info(s.args.value("self")).dtype));
  if (is_floating(s.b.dtype(x))) return s.b.test(op, x);
  return s.b.integer(DType::boolean, op == Op::isfinite ? 1 : 0);
}

template <Op op>
Result<int> binary(const Site& s) {
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  PLANISH_TRY(const int y, s.low.operand(s.args.get("other"), s.coords, s.out_dtype));
  return s.b.op(op, x, y);
}

/// maximum and minimum of booleans are or and and.
template <Op op, Op boolean>
Result<int> binary_or(const Site& s) {
  return s.out_dtype == DType::boolean ? binary<boolean>(s) : binary<op>(s);
}

template <Op op>
Result<int> compare(const Site& s) {
  const DType dtype = result_type(s.low, s.args.get("self"), s.args.get("other"));
  if (dtype == DType::other) return unsupported("a comparison of unknown dtypes");
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, dtype));
  PLANISH_TRY(const int y, s.low.operand(s.args.get("other"), s.coords, dtype));
  // In vectors true has all bits set: as a number it would be the smaller one.
  if constexpr (op == Op::lt || op == Op::le || op == Op::gt || op == Op::ge) {
    if (dtype == DType::boolean) {
      constexpr bool negates_first = op == Op::lt || op == Op::le;
      const int a = negates_first ? s.b.op(Op::logical_not, x) : x, b = negates_first ? y : s.b.op(Op::logical_not, y);
      return s.b.op(op == Op::lt || op == Op::gt ? Op::logical_and : Op::logical_or, a, b);
    }
  }
  return s.b.test(op, x, y);
}

template <Op op>
Result<int> logical(const Site& s) {
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, DType::boolean));
  PLANISH_TRY(const int y, s.low.operand(s.args.get("other"), s.coords, DType::boolean));
  return s.b.op(op, x, y);
}

Result<int> logical_not(const Site& s) {
  PLANISH_TRY(const int x, self_as(s, DType::boolean));
  return s.b.op(Op::logical_not, x);
}

Result<int> bitwise_not(const Site& s) {
  PLANISH_TRY(const int x, self_as(s, s.out_dtype));
  return s.b.op(s.out_dtype == DType::boolean ? Op::logical_not : Op::bitwise_not, x);
}

/// self ± alpha·other; `reversed` for rsub.
Result<int> sum(const Site& s, bool minus, bool reversed) {
  PLANISH_TRY(int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  PLANISH_TRY(int y, s.low.operand(s.args.get("other"), s.coords, s.out_dtype));
  if (s.out_dtype == DType::boolean) {
    if (minus) return unsupported("a difference of booleans");
    if (const ir::Arg* alpha = s.args.get("alpha")) {
      PLANISH_TRY(const int a, s.low.operand(alpha, s.coords, s.out_dtype));
      y = s.b.op(Op::logical_and, y, a);
    }
    return s.b.op(Op::logical_or, x, y);
  }
  if (reversed) std::swap(x, y);
  if (const ir::Arg* alpha = s.args.get("alpha")) {
    PLANISH_TRY(const int a, s.low.operand(alpha, s.coords, s.out_dtype));
    int& scaled = reversed ? x : y;
    // rsub computes other - alpha·self.
    if (reversed) {
      y = s.b.mul(y, a);
    } else {
      scaled = s.b.mul(scaled, a);
    }
  }
  return minus ? s.b.sub(x, y) : s.b.add(x, y);
}
Result<int> add(const Site& s) {
  return sum(s, false, false);
}
Result<int> sub(const Site& s) {
  return sum(s, true, false);
}
Result<int> rsub(const Site& s) {
  return sum(s, true, true);
}

Result<int> div(const Site& s) {
  const std::string mode = s.args.text("rounding_mode");
  if (mode == "floor") return binary<Op::floor_div>(s);
  if (mode == "trunc") return binary<Op::trunc_div>(s);
  return binary<Op::div>(s);
}

Result<int> square(const Site& s) {
  PLANISH_TRY(const int x, self_as(s, s.out_dtype));
  return s.b.mul(x, x);
}

/// torch expands the small exponents, so that x**2 is exactly x·x.
Result<int> pow(const Site& s) {
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  const auto exponent = s.args.number("exponent");
  if (exponent && s.args.value("self") >= 0) {
    const double e = *exponent;
    const bool floating = is_floating(s.b.dtype(x));
    if (e == 0) return s.b.constant(s.b.dtype(x), 1);
    if (e == 1) return x;
    if (e == 2) return s.b.mul(x, x);
    if (e == 3) return s.b.mul(s.b.mul(x, x), x);
    if (floating && e == 0.5) return s.b.op(Op::sqrt, x);
    if (floating && e == -0.5) return s.b.op(Op::rsqrt, x);
    if (floating && e == -1) return s.b.op(Op::reciprocal, x);
    if (floating && e == -2) return s.b.op(Op::reciprocal, s.b.mul(x, x));
  }
  PLANISH_TRY(const int y, s.low.operand(s.args.get("exponent"), s.coords, s.out_dtype));
  return s.b.op(Op::pow, x, y);
}

Result<int> where(const Site& s) {
  PLANISH_TRY(const int c, s.low.operand(s.args.get("condition"), s.coords, DType::boolean));
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  PLANISH_TRY(const int y, s.low.operand(s.args.get("other"), s.coords, s.out_dtype));
  return s.b.select(c, x, y);
}

Result<int> masked_fill(const Site& s) {
  PLANISH_TRY(const int c, s.low.operand(s.args.get("mask"), s.coords, DType::boolean));
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  PLANISH_TRY(const int y, s.low.operand(s.args.get("value"), s.coords, s.out_dtype));
  return s.b.select(c, y, x);
}

bool given(const ir::Arg* arg) {
  return arg != nullptr && !std::holds_alternative<ir::None>(arg->data);
}

Result<int> clamp(const Site& s) {
  PLANISH_TRY(int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  const ir::Arg* lo = given(s.args.get("min")) ? s.args.get("min") : s.args.get("min_val");
  const ir::Arg* hi = given(s.args.get("max")) ? s.args.get("max") : s.args.get("max_val");
  if (given(lo)) {
    PLANISH_TRY(const int bound, s.low.operand(lo, s.coords, s.out_dtype));
    x = s.b.op(Op::maximum, x, bound);
  }
  if (given(hi)) {
    PLANISH_TRY(const int bound, s.low.operand(hi, s.coords, s.out_dtype));
    x = s.b.op(Op::minimum, x, bound);
  }
  return x;
}

/// self + value·(t1 ∘ t2)
template <Op op>
Result<int> fused(const Site& s) {
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  PLANISH_TRY(const int p, s.low.operand(s.args.get("tensor1"), s.coords, s.out_dtype));
  PLANISH_TRY(const int q, s.low.operand(s.args.get("tensor2"), s.coords, s.out_dtype));
  const ir::Arg* value = s.args.get("value");
  int term = s.b.op(op, p, q);
  if (given(value)) {
    PLANISH_TRY(const int v, s.low.operand(value, s.coords, s.out_dtype));
    term = s.b.mul(term, v);
  }
  return s.b.add(x, term);
}

/// torch takes the form that is exact at the nearer end.
Result<int> lerp(const Site& s) {
  PLANISH_TRY(const int x, s.low.operand(s.args.get("self"), s.coords, s.out_dtype));
  PLANISH_TRY(const int end, s.low.operand(s.args.get("end"), s.coords, s.out_dtype));
  PLANISH_TRY(const int w, s.low.operand(s.args.get("weight"), s.coords, s.out_dtype));
  Builder& b = s.b;
  const int difference = b.sub(end, x);
  const int near = b.add(x, b.mul(w, difference));
  const int far = b.sub(end, b.mul(difference, b.sub(b.like(w, 1), w)));
  return b.select(b.test(Op::lt, b.op(Op::abs, w), b.like(w, 0.5)), near, far);
}

Result<int> nan_to_num(const Site& s) {
  PLANISH_TRY(const int x, self_as(s, s.out_dtype));
  Builder& b = s.b;
  if (!is_floating(s.out_dtype)) return x;
  double largest = 3.4028234663852886e38;
  if (s.out_dtype == DType::f64) largest = 1.7976931348623157e308;
  if (s.out_dtype == DType::f16) largest = 65504;
  if (s.out_dtype == DType::bf16) largest = 3.3895313892515355e38;
  const double high = s.args.number("posinf").value_or(largest), low = s.args.number("neginf").value_or(-largest);
  int y = b.select(b.test(Op::eq, x, b.like(x, INFINITY)), b.like(x, high), x);
  y = b.select(b.test(Op::eq, x, b.like(x, -INFINITY)), b.like(x, low), y);
  return b.select(b.test(Op::isnan, x), b.like(x, s.args.number("nan").value_or(0)), y);
}

struct PointwiseOperator {
  std::string_view name;
  Handler handler;
};
constexpr PointwiseOperator pointwise_operators[]{
    {"neg", unary<Op::neg>},
    {"abs", unary<Op::abs>},
    {"sign", unary<Op::sign>},
    {"sgn", unary<Op::sign>},
    {"ceil", rounding<Op::ceil>},
    {"floor", rounding<Op::floor>},
    {"round", round},
    {"trunc", rounding<Op::trunc>},
    {"fix", rounding<Op::trunc>},
    {"frac", unary<Op::frac>},
    {"reciprocal", unary<Op::reciprocal>},
    {"sqrt", unary<Op::sqrt>},
    {"rsqrt", unary<Op::rsqrt>},
    {"exp", unary<Op::exp>},
    {"exp2", unary<Op::exp2>},
    {"expm1", unary<Op::expm1>},
    {"log", unary<Op::log>},
    {"log2", unary<Op::log2>},
    {"log10", unary<Op::log10>},
    {"log1p", unary<Op::log1p>},
    {"sin", unary<Op::sin>},
    {"cos", unary<Op::cos>},
    {"tan", unary<Op::tan>},
    {"asin", unary<Op::asin>},
    {"acos", unary<Op::acos>},
    {"atan", unary<Op::atan>},
    {"sinh", unary<Op::sinh>},
    {"cosh", unary<Op::cosh>},
    {"tanh", unary<Op::tanh>},
    {"asinh", unary<Op::asinh>},
    {"acosh", unary<Op::acosh>},
    {"atanh", unary<Op::atanh>},
    {"erf", unary<Op::erf>},
    {"erfc", unary<Op::erfc>},
    {"sigmoid", unary<Op::sigmoid>},
    {"relu", unary<Op::relu>},
    {"isnan", float_class<Op::isnan>},
    {"isinf", float_class<Op::isinf>},
    {"isfinite", float_class<Op::isfinite>},
    {"logical_not", logical_not},
    {"bitwise_not", bitwise_not},
    {"add", add},
    {"sub", sub},
    {"rsub", rsub},
    {"mul", binary_or<Op::mul, Op::logical_and>},
    {"div", div},
    {"true_divide", binary<Op::div>},
    {"floor_divide", binary<Op::floor_div>},
    {"remainder", binary<Op::remainder>},
    {"fmod", binary<Op::fmod>},
    {"atan2", binary<Op::atan2>},
    {"arctan2", binary<Op::atan2>},
    {"hypot", binary<Op::hypot>},
    {"copysign", binary<Op::copysign>},
    {"maximum", binary_or<Op::maximum, Op::logical_or>},
    {"minimum", binary_or<Op::minimum, Op::logical_and>},
    {"fmax", binary_or<Op::fmax, Op::logical_or>},
    {"fmin", binary_or<Op::fmin, Op::logical_and>},
    {"eq", compare<Op::eq>},
    {"ne", compare<Op::ne>},
    {"lt", compare<Op::lt>},
    {"le", compare<Op::le>},
    {"gt", compare<Op::gt>},
    {"ge", compare<Op::ge>},
    {"logical_and", logical<Op::logical_and>},
    {"logical_or", logical<Op::logical_or>},
    {"logical_xor", logical<Op::logical_xor>},
    {"bitwise_and", binary_or<Op::bitwise_and, Op::logical_and>},
    {"bitwise_or", binary_or<Op::bitwise_or, Op::logical_or>},
    {"bitwise_xor", binary_or<Op::bitwise_xor, Op::logical_xor>},
    {"__and__", binary_or<Op::bitwise_and, Op::logical_and>},
    {"__or__", binary_or<Op::bitwise_or, Op::logical_or>},
    {"__xor__", binary_or<Op::bitwise_xor, Op::logical_xor>},
    {"bitwise_left_shift", binary<Op::shift_left>},
    {"bitwise_right_shift", binary<Op::shift_right>},
    {"__lshift__", binary<Op::shift_left>},
    {"__rshift__", binary<Op::shift_right>},
    {"square", square},
    {"pow", pow},
    {"where", where},
    {"masked_fill", masked_fill},
    {"clamp", clamp},
    {"clip", clamp},
    {"clamp_min", clamp},
    {"clamp_max", clamp},
    {"hardtanh", clamp},
    {"addcmul", fused<Op::mul>},
    {"addcdiv", fused<Op::div>},
    {"lerp", lerp},
    {"nan_to_num", nan_to_num},
};

}  // namespace

const HandlerTable& activation_handlers();

const HandlerTable& pointwise_handlers() {
  static const HandlerTable table = [] {
    HandlerTable t = activation_handlers();
    for (const auto& [name, handler] : pointwise_operators) t.insert_or_assign(std::string(name), handler);
    return t;
  }();
  return table;
}

}  // namespace planish::codegen
