#include "codegen/emit/triton_value.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "codegen/emit/expression.h"
#include "codegen/fold.h"
#include "codegen/operation.h"

namespace planish::codegen::printing {
namespace {

std::string literal_text(DType dtype, double value, std::int64_t bits) {
  if (!is_floating(dtype)) return dtype == DType::boolean ? (bits != 0 ? "True" : "False") : fmt::format("{}", bits);
  if (dtype != DType::f64) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return "float(\"nan\")";
  if (std::isinf(value)) return value < 0 ? "-float(\"inf\")" : "float(\"inf\")";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quotient(bool wide, bool fast, std::string_view a, std::string_view b) {
  // The operator alone is an approximation in f32.
  return wide || fast ? fmt::format("({} / {})", a, b) : fmt::format("tl.div_rn({}, {})", a, b);
}

std::string floating_operation(const Node& node, const std::vector<std::string>& a, bool fast) {
  const bool wide = node.dtype == DType::f64;
  const std::string one = triton_literal(node.dtype, 1, 0), zero = triton_literal(node.dtype, 0, 0);
  const auto exponential = [&](const std::string& x) {
    return fast && !wide ? fmt::format("tl.exp({})", x) : fmt::format("libdevice.exp({})", x);
  };
  if (info(node.op).form == OperationForm::arithmetic) return fmt::format("({} {} {})", a[0], info(node.op).sign, a[1]);
  switch (node.op) {
    case Op::neg:
      return fmt::format("(-{})", a[0]);
    case Op::abs:
      return fmt::format("tl.abs({})", a[0]);
    case Op::sign:
      return fmt::format("(({0} > 0).to({1}) - ({0} < 0).to({1}))", a[0], triton_type(node.dtype));
    case Op::ceil:
      return fmt::format("tl.ceil({})", a[0]);
    case Op::floor:
      return fmt::format("tl.floor({})", a[0]);
    case Op::frac:
      return fmt::format("({0} - libdevice.trunc({0}))", a[0]);
    case Op::reciprocal:
      return quotient(wide, fast, one, a[0]);
    case Op::sqrt:
      return wide ? fmt::format("tl.sqrt({})", a[0]) : fmt::format("tl.sqrt_rn({})", a[0]);
    case Op::rsqrt:
      return fmt::format("tl.rsqrt({})", a[0]);
    case Op::exp:
      return exponential(a[0]);
    case Op::sigmoid:
      return quotient(wide, fast, one, fmt::format("({} + {})", one, exponential("-" + a[0])));
    case Op::relu:
      return fmt::format("{}({}, {})", wide ? "pl_max64" : "pl_max", a[0], zero);
    case Op::div:
      return quotient(wide, fast, a[0], a[1]);
    case Op::floor_div:
      return fmt::format("{}({}, {})", wide ? "pl_floor_divide64" : "pl_floor_divide", a[0], a[1]);
    case Op::trunc_div:
      return fmt::format("libdevice.trunc({})", quotient(wide, false, a[0], a[1]));
    case Op::remainder:
      return fmt::format("pl_modulo({}, {})", a[0], a[1]);
    case Op::maximum:
      return fmt::format("{}({}, {})", wide ? "pl_max64" : "pl_max", a[0], a[1]);
    case Op::minimum:
      return fmt::format("{}({}, {})", wide ? "pl_min64" : "pl_min", a[0], a[1]);
    case Op::fmax:
      return fmt::format("tl.maximum({}, {})", a[0], a[1]);
    case Op::fmin:
      return fmt::format("tl.minimum({}, {})", a[0], a[1]);
    case Op::fma:
      return fmt::format("tl.fma({}, {}, {})", a[0], a[1], a[2]);
    default:
      break;
  }
  std::string args;
  for (const auto& arg : a) args += (args.empty() ? "" : ", ") + arg;
  // libdevice has the names of C, overloaded for f32 and f64.
  return fmt::format("libdevice.{}({})", info(node.op).c_name, args);
}

std::string triton_integer_operation(const Node& node, std::vector<std::string> a) {
  const auto type = triton_type(node.dtype);
  const bool boolean = node.dtype == DType::boolean;
  const auto in_64_bits = [&](std::string_view function) {
    return triton_convert(fmt::format("{}({}.to(tl.int64), {}.to(tl.int64))", function, a[0], a[1]), DType::i64,
                          node.dtype);
  };
  const auto shifted = [&](std::string_view function) {
    const int bits = boolean ? 8
                             : 8 * (node.dtype == DType::i64   ? 8
                                    : node.dtype == DType::i32 ? 4
                                    : node.dtype == DType::i16 ? 2
                                                               : 1);
    return triton_convert(fmt::format("{}({}.to(tl.int64), {}.to(tl.int64), {})", function, a[0], a[1], bits),
                          DType::i64, node.dtype);
  };
  // Arithmetic of booleans happens in 32 bits.
  const auto arithmetic = [&](std::string_view op) {
    if (boolean) return fmt::format("(({}.to(tl.int32) {} {}.to(tl.int32)) != 0)", a[0], op, a[1]);
    return fmt::format("({} {} {})", a[0], op, a[1]);
  };
  const OperationInfo& one = info(node.op);
  if (one.form == OperationForm::arithmetic) return arithmetic(one.sign);
  if (one.form == OperationForm::bits) return fmt::format("({} {} {})", a[0], one.sign, a[1]);
  switch (node.op) {
    case Op::neg:
      return boolean ? a[0] : fmt::format("(-{})", a[0]);
    case Op::abs:
      return boolean || node.dtype == DType::u8 ? a[0] : fmt::format("tl.where({0} < 0, -{0}, {0})", a[0]);
    case Op::sign:
      return boolean ? a[0] : fmt::format("(({0} > 0).to({1}) - ({0} < 0).to({1}))", a[0], type);
    case Op::ceil:
    case Op::floor:
    case Op::round_even:
    case Op::trunc:
      return a[0];
    case Op::relu:
      return boolean ? a[0] : fmt::format("tl.where({0} > 0, {0}, {1})", a[0], triton_literal(node.dtype, 0, 0));
    case Op::fma:
      a[0] = arithmetic("*");
      a[1] = a[2];
      return arithmetic("+");
    case Op::floor_div:
      return in_64_bits("pl_floor_div");
    case Op::trunc_div:
    case Op::div:
      return in_64_bits("pl_trunc_div");
    case Op::remainder:
      return in_64_bits("pl_remainder");
    case Op::fmod:
      return in_64_bits("pl_fmod");
    case Op::pow:
      return in_64_bits("pl_pow");
    case Op::maximum:
    case Op::fmax:
      return fmt::format("tl.where({0} > {1}, {0}, {1})", a[0], a[1]);
    case Op::minimum:
    case Op::fmin:
      return fmt::format("tl.where({0} < {1}, {0}, {1})", a[0], a[1]);
    case Op::bitwise_not:
      return boolean
                 ? fmt::format("({} == 0)", a[0])
                 : fmt::format("({} ^ {})", a[0], triton_literal(node.dtype, 0, node.dtype == DType::u8 ? 255 : -1));
    case Op::shift_left:
      return shifted("pl_shift_left");
    case Op::shift_right:
      return shifted("pl_shift_right");
    default:
      return fmt::format("pl_unsupported_triton_integer_operation({})", a[0]);
  }
}

std::string truth(std::string_view a, DType dtype) {
  return dtype == DType::boolean ? std::string(a) : fmt::format("({} != 0)", a);
}

}  // namespace

std::string_view triton_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "tl.float64";
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return "tl.float32";
    case DType::i64:
      return "tl.int64";
    case DType::i32:
      return "tl.int32";
    case DType::i16:
      return "tl.int16";
    case DType::i8:
      return "tl.int8";
    case DType::u8:
      return "tl.uint8";
    default:
      return "tl.int1";
  }
}

std::string_view triton_element(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "fp64";
    case DType::f32:
      return "fp32";
    case DType::f16:
      return "fp16";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::i16:
      return "i16";
    case DType::i8:
      return "i8";
    default:
      return "u8";
  }
}

std::string triton_literal(DType dtype, double value, std::int64_t bits) {
  return fmt::format("tl.full((), {}, {})", literal_text(dtype, value, bits), triton_type(dtype));
}

std::string triton_convert(std::string_view expression, DType from, DType to) {
  const auto target = triton_type(to);
  if (triton_type(from) == target) return std::string(expression);
  if (to == DType::boolean) return fmt::format("({} != 0)", expression);
  // As in torch, through i64: defined for negative values.
  if (is_floating(from) && (to == DType::u8 || to == DType::i8 || to == DType::i16))
    return fmt::format("{}.to(tl.int64).to({})", expression, target);
  return fmt::format("{}.to({})", expression, target);
}

std::string triton_stored(std::string_view expression, DType from, DType to) {
  if (to == DType::f16) return triton_convert(expression, from, DType::f32) + ".to(tl.float16)";
  if (to == DType::bf16) return triton_convert(expression, from, DType::f32) + ".to(tl.bfloat16)";
  if (to == DType::boolean) return triton_convert(expression, from, to) + ".to(tl.uint8)";
  return triton_convert(expression, from, to);
}

std::string triton_loaded(std::string_view expression, DType stored) {
  if (is_half(stored)) return fmt::format("{}.to(tl.float32)", expression);
  if (stored == DType::boolean) return fmt::format("({} != 0)", expression);
  return std::string(expression);
}

std::string triton_operation(const Kernel& kernel, int id, bool fast, std::string_view index) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  std::vector<std::string> a;
  a.reserve(node.args.size());
  for (const int arg : node.args) a.push_back(fmt::format("v{}", arg));
  const DType from = node.args.empty() ? node.dtype : kernel.nodes[static_cast<std::size_t>(node.args[0])].dtype;
  const DType second = node.args.size() < 2 ? node.dtype : kernel.nodes[static_cast<std::size_t>(node.args[1])].dtype;
  const bool real = is_floating(from);
  const OperationInfo& one = info(node.op);
  if (one.form == OperationForm::comparison) return fmt::format("({} {} {})", a[0], one.sign, a[1]);
  if (one.form == OperationForm::logic)
    return fmt::format("({} {} {})", truth(a[0], from), one.sign, truth(a[1], second));
  switch (node.op) {
    case Op::constant:
      return triton_literal(node.dtype, node.value, node.bits);
    case Op::index:
      return triton_convert(fmt::format("({}).to(tl.int64)", index), DType::i64, node.dtype);
    case Op::cast:
      if (node.rounds && node.dtype == DType::f16)
        return triton_convert(a[0], from, DType::f32) + ".to(tl.float16).to(tl.float32)";
      if (node.rounds && node.dtype == DType::bf16)
        return triton_convert(a[0], from, DType::f32) + ".to(tl.bfloat16).to(tl.float32)";
      return triton_convert(a[0], from, node.dtype);
    case Op::logical_not:
      return fmt::format("({} == 0)", a[0]);
    case Op::isnan:
      return real ? fmt::format("({0} != {0})", a[0]) : triton_literal(DType::boolean, 0, 0);
    case Op::isinf:
      return real ? fmt::format("(tl.abs({}) == float(\"inf\"))", a[0]) : triton_literal(DType::boolean, 0, 0);
    case Op::isfinite:
      return real ? fmt::format("(tl.abs({}) < float(\"inf\"))", a[0]) : triton_literal(DType::boolean, 0, 1);
    case Op::select:
      return fmt::format("tl.where({}, {}, {})", truth(a[0], from), a[1], a[2]);
    default:
      break;
  }
  return is_floating(node.dtype) ? floating_operation(node, a, fast) : triton_integer_operation(node, std::move(a));
}

TritonFold triton_fold(const Reduction& reduction) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  using Limits = std::numeric_limits<std::int64_t>;
  TritonFold fold;
  const bool real = is_floating(reduction.accumulate);
  // Narrow integers are folded in 32 bits and cut afterwards, which gives the same.
  fold.type = real || reduction.accumulate == DType::i64 ? reduction.accumulate : DType::i32;
  const bool wide = fold.type == DType::f64;
  const std::int64_t lowest = fold.type == DType::i64 ? Limits::min() : std::numeric_limits<std::int32_t>::min();
  const std::int64_t highest = fold.type == DType::i64 ? Limits::max() : std::numeric_limits<std::int32_t>::max();
  const FoldInfo& kind = info(reduction.kind);
  if (kind.truth) fold.type = DType::i32;
  fold.combine = !real ? kind.triton_whole : wide ? kind.triton_wide : kind.triton;
  switch (kind.identity) {
    case Identity::zero:
      fold.neutral = kind.truth ? "0" : literal_text(fold.type, 0, 0);
      break;
    case Identity::one:
      fold.neutral = kind.truth ? "1" : literal_text(fold.type, 1, 1);
      break;
    case Identity::lowest:
      fold.neutral = literal_text(fold.type, -inf, lowest);
      break;
    case Identity::highest:
      fold.neutral = literal_text(fold.type, inf, highest);
      break;
  }
  return fold;
}

std::string triton_term(const Kernel& kernel, const Reduction& reduction) {
  const DType from = kernel.nodes[static_cast<std::size_t>(reduction.arg)].dtype;
  const std::string value = fmt::format("v{}", reduction.arg);
  if (info(reduction.kind).truth) return truth(value, from) + ".to(tl.int32)";
  return triton_convert(triton_convert(value, from, reduction.accumulate), reduction.accumulate,
                        triton_fold(reduction).type);
}

}  // namespace planish::codegen::printing
