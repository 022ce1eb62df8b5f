#pragma once

#include <string>
#include <string_view>

#include "codegen/contraction/plan.h"

namespace planish::codegen::contraction {

/// How a kernel's text names what exponents are found by.
struct ExponentNames {
  std::string_view array;     ///< of an operand's exponents; empty: it has none, all are 0
  std::string_view product;   ///< the number of the product at hand
  bool reaches_over = false;  ///< the rows asked for may lie beyond the operand, as those of a tile do
};

/// The text of the exponent that row `row` of an operand was scaled by: rows have one each, or share their image's
/// where they slide, and products that have the same operand share all of them.
std::string exponent_of(const Problem& problem, const Extents& extents, Operand operand, const ExponentNames& names,
                        std::string_view row);

}  // namespace planish::codegen::contraction
