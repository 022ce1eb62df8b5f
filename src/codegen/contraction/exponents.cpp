#include "codegen/contraction/exponents.h"

#include <fmt/format.h>

namespace planish::codegen::contraction {

std::optional<int> common_exponent(const TilePlan& plan, Operand operand) {
  if (operand == Operand::a && splits_in_registers(plan)) return 0;
  if (operand == Operand::b && reads_strips(plan)) return strip_exponent;
  return std::nullopt;
}

std::string exponent_of(const Problem& problem, const TilePlan& plan, Operand operand, const ExponentNames& names,
                        std::string_view row) {
  if (const auto same = common_exponent(plan, operand)) return fmt::format("{}", *same);
  const Extents extents = extents_of(problem, plan);
  std::int64_t each = operand == Operand::a ? extents.rows_a : extents.rows_b;
  std::string place(row);
  if (problem.is_implicit(operand)) {
    each = problem.im2col->positions / problem.im2col->image;
    place = fmt::format("({}) / {}", row, problem.im2col->image);
    if (names.reaches_over) place = fmt::format("min({}, {})", place, each - 1);
  }
  const std::string before = problem.moves(operand) ? fmt::format("{} * {} + ", names.product, each) : "";
  return fmt::format("{}[{}{}]", names.array, before, place);
}

}  // namespace planish::codegen::contraction
