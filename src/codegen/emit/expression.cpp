#include "codegen/emit/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/fold.h"
#include "codegen/operation.h"

namespace planish::codegen::printing {
namespace {

bool floating(DType dtype) {
  return is_floating(dtype);
}

/// Integer arithmetic through the unsigned type, so that overflow wraps as in torch and is defined in C++.
std::string wrapped(DType dtype, std::string_view a, std::string_view op, std::string_view b) {
  switch (dtype) {
    case DType::i64:
      return fmt::format("(long long)((unsigned long long){} {} (unsigned long long){})", a, op, b);
    case DType::boolean:
      return fmt::format("(bool)((int){} {} (int){})", a, op, b);
    default:
      return fmt::format("({})((unsigned){} {} (unsigned){})", computing_type(dtype), a, op, b);
  }
}

/// Operations that the prelude provides, overloaded for float and double.
std::string_view prelude_name(Op op) {
  switch (op) {
    case Op::sign:
      return "pl_sign";
    case Op::frac:
      return "pl_frac";
    case Op::rsqrt:
      return "pl_rsqrt";
    case Op::sigmoid:
      return "pl_sigmoid";
    case Op::floor_div:
      return "pl_floor_div";
    case Op::trunc_div:
      return "pl_trunc_div";
    case Op::remainder:
      return "pl_remainder";
    case Op::maximum:
      return "pl_max";
    case Op::minimum:
      return "pl_min";
    default:
      return "";
  }
}

std::string integer_literal(std::int64_t value, bool wide) {
  if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807LL - 1LL)";
  if (!wide && value == std::numeric_limits<std::int32_t>::min()) return "(-2147483647 - 1)";
  return wide ? fmt::format("{}LL", value) : fmt::format("{}", value);
}

std::string integer_operation(const Node& node, const std::vector<std::string>& a) {
  const DType t = node.dtype;
  const auto call = [&](std::string_view f) {
    return fmt::format("{}({}{}{})", f, a[0], a.size() > 1 ? ", " : "", a.size() > 1 ? a[1] : "");
  };
  const OperationInfo& one = info(node.op);
  if (one.form == OperationForm::arithmetic) return wrapped(t, a[0], one.sign, a[1]);
  if (one.form == OperationForm::bits) return fmt::format("({})({} {} {})", computing_type(t), a[0], one.sign, a[1]);
  switch (node.op) {
    case Op::neg:
      return wrapped(t, t == DType::i64 ? "0ULL" : "0u", "-", a[0]);
    case Op::abs:
      return fmt::format("({0} < 0 ? {1} : {0})", a[0], wrapped(t, t == DType::i64 ? "0ULL" : "0u", "-", a[0]));
    case Op::sign:
      return fmt::format("({})(({} > 0) - ({} < 0))", computing_type(t), a[0], a[0]);
    case Op::ceil:
    case Op::floor:
    case Op::round_even:
    case Op::trunc:
      return a[0];
    case Op::relu:
      return fmt::format("({0} > 0 ? {0} : ({1})0)", a[0], computing_type(t));
    case Op::fma:
      return wrapped(t, wrapped(t, a[0], "*", a[1]), "+", a[2]);
    case Op::floor_div:
      return fmt::format("({})pl_floor_div((long long){}, (long long){})", computing_type(t), a[0], a[1]);
    case Op::trunc_div:
    case Op::div:
      return fmt::format("({})pl_trunc_div((long long){}, (long long){})", computing_type(t), a[0], a[1]);
    case Op::remainder:
      return fmt::format("({})pl_remainder((long long){}, (long long){})", computing_type(t), a[0], a[1]);
    case Op::fmod:
      return fmt::format("({})pl_fmod((long long){}, (long long){})", computing_type(t), a[0], a[1]);
    case Op::pow:
      return fmt::format("({})pl_pow((long long){}, (long long){})", computing_type(t), a[0], a[1]);
    case Op::maximum:
    case Op::fmax:
      return fmt::format("({0} > {1} ? {0} : {1})", a[0], a[1]);
    case Op::minimum:
    case Op::fmin:
      return fmt::format("({0} < {1} ? {0} : {1})", a[0], a[1]);
    case Op::bitwise_not:
      return t == DType::boolean ? fmt::format("!{}", a[0]) : fmt::format("({})~{}", computing_type(t), a[0]);
    case Op::shift_left:
      return fmt::format("({})pl_shift_left((long long){}, (long long){}, {})", computing_type(t), a[0], a[1],
                         8 * size_of(t));
    case Op::shift_right:
      return fmt::format("({})pl_shift_right((long long){}, (long long){}, {})", computing_type(t), a[0], a[1],
                         8 * size_of(t));
    default:
      return call("pl_unsupported_integer_operation");
  }
}

}  // namespace

std::string combined_lanes(ReduceKind kind, DType accumulate, const std::string& name, int width) {
  std::vector<std::string> parts;
  for (int j = 0; j < width; ++j) parts.push_back(fmt::format("{}[{}]", name, j));
  while (parts.size() > 1) {
    std::vector<std::string> half;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
      half.push_back(combine(kind, accumulate, parts[i], parts[i + 1]));
    parts = std::move(half);
  }
  return parts[0];
}

std::string Speller::name(int id) const {
  return fmt::format("v{}", id);
}
std::string Speller::type(DType dtype) const {
  return std::string(computing_type(dtype));
}
std::string Speller::function(Op op, bool wide) const {
  if (const auto ours = prelude_name(op); !ours.empty()) return std::string(ours);
  return std::string(info(op).c_name) + (wide ? "" : "f");
}

std::string Speller::quotient(const Kernel&, int, std::string_view a, std::string_view b) const {
  return fmt::format("({} / {})", a, b);
}

std::string Speller::unfused_difference(bool, std::string_view a, std::string_view b) const {
  return fmt::format("({} - {})", a, b);
}

std::string Speller::whole_form(const Kernel&, int) const {
  return {};
}

std::string Speller::guarded(const Kernel& kernel, int id, std::string value, std::string_view where) const {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  if (gathers(node)) {
    const OutOfRange missing = out_of_range(node.dtype);
    value = fmt::format("({} ? {} : {})", in_range(node.args, node.limits), value,
                        literal(node.dtype, missing.value, missing.bits));
  }
  if (where.empty()) return value;
  return fmt::format("({} ? {} : {})", where, value, literal(node.dtype, node.value, node.bits));
}

std::string Speller::moved(std::span<const int> args, std::span<const std::int64_t> strides) const {
  std::string out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (strides[i] != 0) out += fmt::format(" + {} * {}LL", name(args[i]), strides[i]);
  }
  return out;
}

std::string Speller::in_range(std::span<const int> args, std::span<const std::int64_t> limits) const {
  std::string out;
  for (std::size_t i = 0; i < args.size(); ++i)
    out += fmt::format("{}(unsigned long long){} < {}ULL", i > 0 ? " && " : "", name(args[i]), limits[i]);
  return out;
}

std::string_view computing_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e4m3_fnuz:
    case DType::f8_e5m2_fnuz:
      return "float";
    case DType::i64:
      return "long long";
    case DType::i32:
      return "int";
    case DType::i16:
      return "short";
    case DType::i8:
      return "signed char";
    case DType::u8:
      return "unsigned char";
    case DType::boolean:
      return "bool";
    case DType::other:
      break;
  }
  return "void";
}

std::string_view storage_type(DType dtype) {
  if (is_half(dtype)) return "unsigned short";
  if (dtype == DType::boolean || is_float8(dtype)) return "unsigned char";
  return computing_type(dtype);
}

std::string literal(DType dtype, double value, std::int64_t bits) {
  if (dtype == DType::f64) {
    if (std::isnan(value)) return "PL_NAN_F64";
    if (std::isinf(value)) return value < 0 ? "(-PL_INF_F64)" : "PL_INF_F64";
    return std::signbit(value) ? fmt::format("({:a})", value) : fmt::format("{:a}", value);
  }
  if (floating(dtype)) {
    const auto single = static_cast<float>(value);
    if (std::isnan(single)) return "PL_NAN_F32";
    if (std::isinf(single)) return single < 0 ? "(-PL_INF_F32)" : "PL_INF_F32";
    return std::signbit(single) ? fmt::format("({:a}f)", single) : fmt::format("{:a}f", single);
  }
  if (dtype == DType::boolean) return bits != 0 ? "true" : "false";
  const std::string text = integer_literal(bits, dtype == DType::i64);
  return bits < 0 ? "(" + text + ")" : text;
}

std::string neutral(ReduceKind kind, DType accumulate) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  switch (accumulate) {
    case DType::i32:
      lowest = INT32_MIN, highest = INT32_MAX;
      break;
    case DType::i16:
      lowest = INT16_MIN, highest = INT16_MAX;
      break;
    case DType::i8:
      lowest = INT8_MIN, highest = INT8_MAX;
      break;
    case DType::u8:
      lowest = 0, highest = UINT8_MAX;
      break;
    case DType::boolean:
      lowest = 0, highest = 1;
      break;
    default:
      break;
  }
  switch (info(kind).identity) {
    case Identity::zero:
      return literal(accumulate, 0, 0);
    case Identity::one:
      return literal(accumulate, 1, 1);
    case Identity::lowest:
      return literal(accumulate, -inf, lowest);
    case Identity::highest:
      return literal(accumulate, inf, highest);
  }
  return "0";
}

std::string combine(ReduceKind kind, DType accumulate, std::string_view a, std::string_view b) {
  const FoldSpelling& how = info(kind).cuda;
  if (!floating(accumulate) && how.whole.size() == 1) return wrapped(accumulate, a, how.whole, b);
  return fmt::format(fmt::runtime(floating(accumulate) ? how.real : how.whole), a, b, computing_type(accumulate));
}

std::string convert(std::string_view expression, DType from, DType to) {
  const auto target = computing_type(to);
  if (computing_type(from) == target) return std::string(expression);
  if (to == DType::boolean) return fmt::format("({} != 0)", expression);
  // torch goes through i64 for small unsigned and signed integers, which also keeps the conversion of negative values
  // defined.
  if (floating(from) && (to == DType::u8 || to == DType::i8 || to == DType::i16)) {
    return fmt::format("({})(long long){}", target, expression);
  }
  return fmt::format("({}){}", target, expression);
}

std::string store_form(std::string_view expression, DType from, DType to) {
  if (to == DType::f16) return fmt::format("pl_to_f16({})", convert(expression, from, DType::f32));
  if (to == DType::bf16) return fmt::format("pl_to_bf16({})", convert(expression, from, DType::f32));
  if (is_float8(to)) return fmt::format("pl_to_{}({})", name(to), convert(expression, from, DType::f32));
  if (to == DType::boolean) return fmt::format("(unsigned char){}", convert(expression, from, to));
  return convert(expression, from, to);
}

std::string load_form(std::string_view expression, DType stored) {
  if (stored == DType::f16) return fmt::format("pl_from_f16({})", expression);
  if (stored == DType::bf16) return fmt::format("pl_from_bf16({})", expression);
  if (is_float8(stored)) return fmt::format("pl_from_{}({})", name(stored), expression);
  if (stored == DType::boolean) return fmt::format("({} != 0)", expression);
  return std::string(expression);
}

std::string operation(const Kernel& kernel, int id, Speller& speller) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  if (std::string form = speller.whole_form(kernel, id); !form.empty()) return form;
  std::vector<std::string> a;
  a.reserve(node.args.size());
  for (const int arg : node.args) a.push_back(speller.name(arg));
  const DType from = node.args.empty() ? node.dtype : kernel.nodes[static_cast<std::size_t>(node.args[0])].dtype;
  const bool real = floating(node.dtype);
  const bool wide = node.dtype == DType::f64;
  const auto real_literal = [&](double v) { return literal(node.dtype, v, static_cast<std::int64_t>(v)); };
  const OperationInfo& what = info(node.op);
  if (product_beside_extreme(kernel, node) >= 0) return speller.unfused_difference(wide, a[0], a[1]);
  if (what.form == OperationForm::comparison || (real && what.form == OperationForm::arithmetic))
    return fmt::format("({} {} {})", a[0], what.sign, a[1]);
  if (what.form == OperationForm::logic) return fmt::format("(({} != 0) {} ({} != 0))", a[0], what.sign, a[1]);
  switch (node.op) {
    case Op::constant:
      return literal(node.dtype, node.value, node.bits);
    case Op::load:
      return speller.load(kernel, id);
    case Op::reduced:
      return speller.reduced(kernel, id);
    case Op::scanned:
      return speller.scanned(kernel, id);
    case Op::index:
      return convert(fmt::format("(long long)({})", speller.index(kernel, node.index)), DType::i64, node.dtype);
    case Op::cast:
      if (node.rounds && node.dtype == DType::f16)
        return fmt::format("pl_round_f16({})", convert(a[0], from, DType::f32));
      if (node.rounds && node.dtype == DType::bf16)
        return fmt::format("pl_round_bf16({})", convert(a[0], from, DType::f32));
      if (node.rounds && is_float8(node.dtype))
        return fmt::format("pl_from_{0}(pl_to_{0}({1}))", planish::name(node.dtype), convert(a[0], from, DType::f32));
      return convert(a[0], from, node.dtype);
    case Op::logical_not:
      return fmt::format("({} == 0)", a[0]);
    case Op::isnan:
      return floating(from) ? fmt::format("({0} != {0})", a[0]) : "false";
    case Op::isinf:
      if (!floating(from)) return "false";
      return fmt::format("({}({}) == {})", speller.function(Op::abs, from == DType::f64), a[0],
                         from == DType::f64 ? "PL_INF_F64" : "PL_INF_F32");
    case Op::isfinite:
      if (!floating(from)) return "true";
      return fmt::format("({}({}) < {})", speller.function(Op::abs, from == DType::f64), a[0],
                         from == DType::f64 ? "PL_INF_F64" : "PL_INF_F32");
    case Op::select:
      return fmt::format("({} ? {} : {})", a[0], a[1], a[2]);
    default:
      break;
  }
  if (!real) return integer_operation(node, a);
  switch (node.op) {
    case Op::neg:
      return fmt::format("(-{})", a[0]);
    case Op::reciprocal:
      return speller.quotient(kernel, id, real_literal(1), a[0]);
    case Op::relu:
      return fmt::format("pl_max({}, {})", a[0], real_literal(0));
    case Op::div:
      return speller.quotient(kernel, id, a[0], a[1]);
    default:
      break;
  }
  std::string args;
  for (const auto& one : a) args += (args.empty() ? "" : ", ") + one;
  return fmt::format("{}({})", speller.function(node.op, wide), args);
}

void print_nodes(std::string& out, const Kernel& kernel, std::span<const int> order, Speller& speller,
                 std::string_view indent) {
  for (const int id : order) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    out += fmt::format("{}const {} {} = {};\n", indent, speller.type(node.dtype), speller.name(id),
                       operation(kernel, id, speller));
  }
}

}  // namespace planish::codegen::printing
