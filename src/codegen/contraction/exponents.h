#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "codegen/contraction/plan.h"

namespace planish::codegen::contraction {

/// How a kernel's text names what exponents are found by.
struct ExponentNames {
  std::string_view array;     ///< of an operand's exponents
  std::string_view product;   ///< the number of the product at hand
  bool reaches_over = false;  ///< the rows asked for may lie beyond the operand, as those of a tile do
};

/// The text of the exponent that row `row` of an operand was scaled by: rows have one each, or share their image's
/// where they slide, and products that have the same operand share all of them.
/// A number where all have the same.
std::string exponent_of(const Problem& problem, const TilePlan& plan, Operand operand, const ExponentNames& names,
                        std::string_view row);
/// The same number; nothing where rows have their own.
std::optional<int> common_exponent(const TilePlan& plan, Operand operand);

}  // namespace planish::codegen::contraction
