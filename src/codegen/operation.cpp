#include "codegen/operation.h"

#include <array>

#include "codegen/table.h"

namespace planish::codegen {
namespace {

// Names of columns, kept from the rest of the namespace.
namespace table_of_operations {

constexpr int any = OperationInfo::any;
constexpr unsigned transcendental = 1, kept = 2, approximated = 4, truth = 8;

constexpr OperationInfo row(Op op, std::string_view name, int arity, OperationCost cost, unsigned flags,
                            OperationForm form = OperationForm::own, std::string_view spelled = {}) {
  const bool named = form == OperationForm::function || form == OperationForm::own;
  return {op,
          name,
          arity,
          cost,
          (flags & transcendental) != 0,
          (flags & kept) != 0,
          (flags & approximated) != 0,
          (flags & truth) != 0,
          form,
          named ? std::string_view() : spelled,
          named ? spelled : std::string_view()};
}

using enum OperationCost;
constexpr auto own = OperationForm::own, arithmetic = OperationForm::arithmetic, comparison = OperationForm::comparison,
               logic = OperationForm::logic, bits = OperationForm::bits;
// clang-format off
constexpr std::array all{
    row(Op::constant, "constant", 0, free, 0),
    row(Op::load, "load", any, free, 0),
    row(Op::index, "index", 0, free, 0),
    row(Op::reduced, "reduced", 0, free, 0),
    row(Op::scanned, "scanned", 0, free, 0),
    row(Op::cast, "cast", 1, plain, 0),
    row(Op::neg, "neg", 1, plain, 0),
    row(Op::abs, "abs", 1, plain, 0, own, "fabs"),
    row(Op::sign, "sign", 1, plain, 0),
    row(Op::ceil, "ceil", 1, plain, 0, own, "ceil"),
    row(Op::floor, "floor", 1, plain, 0, own, "floor"),
    row(Op::round_even, "round_even", 1, plain, 0, own, "rint"),
    row(Op::trunc, "trunc", 1, plain, 0, own, "trunc"),
    row(Op::frac, "frac", 1, plain, 0),
    row(Op::reciprocal, "reciprocal", 1, division, approximated),
    row(Op::sqrt, "sqrt", 1, division, approximated, own, "sqrt"),
    row(Op::rsqrt, "rsqrt", 1, division, 0),
    row(Op::exp, "exp", 1, function, transcendental | kept | approximated, OperationForm::function, "exp"),
    row(Op::exp2, "exp2", 1, function, transcendental | kept | approximated, OperationForm::function, "exp2"),
    row(Op::expm1, "expm1", 1, function, transcendental | kept, OperationForm::function, "expm1"),
    row(Op::log, "log", 1, function, transcendental | kept, OperationForm::function, "log"),
    row(Op::log2, "log2", 1, function, transcendental | kept, OperationForm::function, "log2"),
    row(Op::log10, "log10", 1, function, transcendental | kept, OperationForm::function, "log10"),
    row(Op::log1p, "log1p", 1, function, transcendental | kept, OperationForm::function, "log1p"),
    row(Op::sin, "sin", 1, function, transcendental | kept, OperationForm::function, "sin"),
    row(Op::cos, "cos", 1, function, transcendental | kept, OperationForm::function, "cos"),
    row(Op::tan, "tan", 1, function, transcendental | kept, OperationForm::function, "tan"),
    row(Op::asin, "asin", 1, function, transcendental | kept, OperationForm::function, "asin"),
    row(Op::acos, "acos", 1, function, transcendental | kept, OperationForm::function, "acos"),
    row(Op::atan, "atan", 1, function, transcendental | kept, OperationForm::function, "atan"),
    row(Op::sinh, "sinh", 1, function, transcendental | kept, OperationForm::function, "sinh"),
    row(Op::cosh, "cosh", 1, function, transcendental | kept, OperationForm::function, "cosh"),
    row(Op::tanh, "tanh", 1, function, transcendental | kept | approximated, OperationForm::function, "tanh"),
    row(Op::asinh, "asinh", 1, function, transcendental | kept, OperationForm::function, "asinh"),
    row(Op::acosh, "acosh", 1, function, transcendental | kept, OperationForm::function, "acosh"),
    row(Op::atanh, "atanh", 1, function, transcendental | kept, OperationForm::function, "atanh"),
    row(Op::erf, "erf", 1, library, transcendental | kept, OperationForm::function, "erf"),
    row(Op::erfc, "erfc", 1, library, transcendental | kept, OperationForm::function, "erfc"),
    row(Op::sigmoid, "sigmoid", 1, function, transcendental | kept | approximated, OperationForm::function),
    row(Op::logical_not, "logical_not", 1, plain, truth),
    row(Op::bitwise_not, "bitwise_not", 1, plain, 0),
    row(Op::isnan, "isnan", 1, plain, truth),
    row(Op::isinf, "isinf", 1, plain, truth),
    row(Op::isfinite, "isfinite", 1, plain, truth),
    row(Op::relu, "relu", 1, plain, 0),
    row(Op::add, "add", 2, plain, 0, arithmetic, "+"),
    row(Op::sub, "sub", 2, plain, 0, arithmetic, "-"),
    row(Op::mul, "mul", 2, plain, 0, arithmetic, "*"),
    row(Op::div, "div", 2, division, approximated),
    row(Op::floor_div, "floor_div", 2, library, 0),
    row(Op::trunc_div, "trunc_div", 2, library, 0),
    row(Op::remainder, "remainder", 2, library, 0),
    row(Op::fmod, "fmod", 2, library, 0, own, "fmod"),
    row(Op::pow, "pow", 2, library, kept, own, "pow"),
    row(Op::atan2, "atan2", 2, plain, kept, own, "atan2"),
    row(Op::maximum, "maximum", 2, plain, 0),
    row(Op::minimum, "minimum", 2, plain, 0),
    row(Op::fmax, "fmax", 2, plain, 0, own, "fmax"),
    row(Op::fmin, "fmin", 2, plain, 0, own, "fmin"),
    row(Op::hypot, "hypot", 2, plain, 0, own, "hypot"),
    row(Op::copysign, "copysign", 2, plain, 0, own, "copysign"),
    row(Op::eq, "eq", 2, plain, truth, comparison, "=="),
    row(Op::ne, "ne", 2, plain, truth, comparison, "!="),
    row(Op::lt, "lt", 2, plain, truth, comparison, "<"),
    row(Op::le, "le", 2, plain, truth, comparison, "<="),
    row(Op::gt, "gt", 2, plain, truth, comparison, ">"),
    row(Op::ge, "ge", 2, plain, truth, comparison, ">="),
    row(Op::logical_and, "logical_and", 2, plain, truth, logic, "&"),
    row(Op::logical_or, "logical_or", 2, plain, truth, logic, "|"),
    row(Op::logical_xor, "logical_xor", 2, plain, truth, logic, "^"),
    row(Op::bitwise_and, "bitwise_and", 2, plain, 0, bits, "&"),
    row(Op::bitwise_or, "bitwise_or", 2, plain, 0, bits, "|"),
    row(Op::bitwise_xor, "bitwise_xor", 2, plain, 0, bits, "^"),
    row(Op::shift_left, "shift_left", 2, plain, 0),
    row(Op::shift_right, "shift_right", 2, plain, 0),
    row(Op::select, "select", 3, plain, 0),
    row(Op::fma, "fma", 3, fused, 0, own, "fma"),
};
// clang-format on
static_assert(all.size() == static_cast<std::size_t>(Op::fma) + 1);
static_assert(in_order(all, &OperationInfo::op));

}  // namespace table_of_operations

}  // namespace

const OperationInfo& info(Op op) {
  return table_of_operations::all[static_cast<std::size_t>(op)];
}

double weight(OperationCost cost) {
  constexpr std::array weights{0.0, 1.0, 2.0, 4.0, 10.0, 20.0};
  return weights[static_cast<std::size_t>(cost)];
}

}  // namespace planish::codegen
