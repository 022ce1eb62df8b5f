#include "codegen/contraction/spread_text.h"

#include <fmt/format.h>

#include "codegen/contraction/epilogue.h"

namespace planish::codegen::contraction {

std::string place_of_piece(const Product& product, const Pieces& pieces, std::string_view row, std::string_view piece,
                           std::string_view slot) {
  return fmt::format("((((long long)batch * {} + {}) * {} + {}) * {} + {}) * {}", product.problem.m, row, pieces.count,
                     piece, pieces.slots, slot, product.spread->states());
}

std::string piece_of(const Pieces& pieces, const TilePlan& plan, std::string_view column) {
  if (pieces.of_tile == 1) return fmt::format("({}) / {}", column, plan.bn);
  return fmt::format("(({0}) / {1} * {2} + ({0}) % {1} / {3})", column, plan.bn, pieces.of_tile, pieces.width);
}

std::string start_of(const Pieces& pieces, const TilePlan& plan, std::string_view piece) {
  if (pieces.of_tile == 1) return fmt::format("({}) * {}", piece, plan.bn);
  return fmt::format("(({0}) / {1} * {2} + ({0}) % {1} * {3})", piece, pieces.of_tile, plan.bn, pieces.width);
}

std::string print_column(PlaceWriter& writer, const Product& product, std::string_view linear) {
  if (product.sliding) return print_position(writer, *product.sliding, linear);
  writer.decode(linear, product.c.n);
  return {};
}

}  // namespace planish::codegen::contraction
