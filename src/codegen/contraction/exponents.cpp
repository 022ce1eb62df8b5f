#include "codegen/contraction/exponents.h"

#include <fmt/format.h>

namespace planish::codegen::contraction {

std::string exponent_of(const Problem& problem, const Extents& extents, Operand operand, const ExponentNames& names,
                        std::string_view row) {
  if (names.array.empty()) return "0";
  std::int64_t each = operand == Operand::a ? extents.rows_a : extents.rows_b;
  std::string place(row);
  if (problem.slides(operand)) {
    each = problem.columns->positions / problem.columns->image;
    place = fmt::format("({}) / {}", row, problem.columns->image);
    if (names.reaches_over) place = fmt::format("min({}, {})", place, each - 1);
  }
  const std::string before = problem.moves(operand) ? fmt::format("{} * {} + ", names.product, each) : "";
  return fmt::format("{}[{}{}]", names.array, before, place);
}

}  // namespace planish::codegen::contraction
