#include "codegen/lower/node_text.h"

#include <fmt/format.h>

#include <array>

namespace planish::codegen {

std::string_view op_name(Op op) {
  static constexpr std::array names{
      "constant",    "load",       "index",       "reduced",    "scanned",     "cast",        "neg",
      "abs",         "sign",       "ceil",        "floor",      "round_even",  "trunc",       "frac",
      "reciprocal",  "sqrt",       "rsqrt",       "exp",        "exp2",        "expm1",       "log",
      "log2",        "log10",      "log1p",       "sin",        "cos",         "tan",         "asin",
      "acos",        "atan",       "sinh",        "cosh",       "tanh",        "asinh",       "acosh",
      "atanh",       "erf",        "erfc",        "sigmoid",    "logical_not", "bitwise_not", "isnan",
      "isinf",       "isfinite",   "relu",        "add",        "sub",         "mul",         "div",
      "floor_div",   "trunc_div",  "remainder",   "fmod",       "pow",         "atan2",       "maximum",
      "minimum",     "fmax",       "fmin",        "hypot",      "copysign",    "eq",          "ne",
      "lt",          "le",         "gt",          "ge",         "logical_and", "logical_or",  "logical_xor",
      "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "select",      "fma"};
  static_assert(names.size() == static_cast<std::size_t>(Op::fma) + 1);
  return names[static_cast<std::size_t>(op)];
}

std::string_view reduce_name(ReduceKind kind) {
  static constexpr std::array names{"sum", "product", "max", "min", "any", "all", "argmax", "argmin"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view scan_name(ScanKind kind) {
  static constexpr std::array names{"sum", "product", "max", "min", "log_sum_exp"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view anchor_name(Anchor anchor) {
  static constexpr std::array names{"pointwise", "row", "scan", "cross", "parts"};
  return names[static_cast<std::size_t>(anchor)];
}

std::string bounds_text(const std::vector<ir::Bound>& where) {
  std::string out;
  for (const auto& bound : where) out += fmt::format(" [{} <= {} < {}]", bound.lo, bound.e.text(), bound.hi);
  return out;
}

std::string node_text(const Node& node) {
  std::string out = fmt::format("{} {}", op_name(node.op), name(node.dtype));
  const auto literal = [&] {
    return is_floating(node.dtype) ? fmt::format("{:a}", node.value) : fmt::format("{}", node.bits);
  };
  if (node.op == Op::constant) out += " " + literal();
  if (node.op == Op::load) {
    out += fmt::format(" in{}[{}", node.input, node.index.text());
    for (std::size_t i = 0; i < node.args.size(); ++i)
      out += fmt::format(" + {}*(%{} < {})", node.strides[i], node.args[i], node.limits[i]);
    out += "]";
    if (!node.where.empty()) out += " where" + bounds_text(node.where) + " else " + literal();
  }
  if (node.op == Op::index) out += fmt::format(" {}", node.index.text());
  if (node.op == Op::reduced) out += fmt::format(" r{}", node.reduction);
  if (node.op == Op::scanned) {
    out += fmt::format(" s{}{}{}", node.scan, node.exclusive ? " before" : "", node.position ? " position" : "");
  }
  if (node.op != Op::load) {
    for (const int arg : node.args) out += fmt::format(" %{}", arg);
  }
  if (node.rounds) out += " rounds";
  return out;
}

}  // namespace planish::codegen
