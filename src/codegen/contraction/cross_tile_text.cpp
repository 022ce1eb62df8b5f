#include "codegen/contraction/cross_tile_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/contraction/epilogue.h"

namespace planish::codegen::contraction {

std::string place_of_piece(const Product& product, const Pieces& pieces, std::string_view row, std::string_view piece,
                           std::string_view slot) {
  return fmt::format("((((long long)batch * {} + {}) * {} + {}) * {} + {}) * {}", product.problem.m, row, pieces.count,
                     piece, pieces.slots, slot, product.cross_tile->states());
}

std::string piece_of(const Pieces& pieces, const TilePlan& plan, std::string_view column) {
  if (pieces.of_tile == 1) return fmt::format("({}) / {}", column, tile_step(plan));
  return fmt::format("(({0}) / {1} * {2} + ({0}) % {1} / {3})", column, tile_step(plan), pieces.of_tile, pieces.width);
}

std::string start_of(const Pieces& pieces, const TilePlan& plan, std::string_view piece) {
  if (pieces.of_tile == 1) return fmt::format("({}) * {}", piece, tile_step(plan));
  return fmt::format("(({0}) / {1} * {2} + ({0}) % {1} * {3})", piece, pieces.of_tile, tile_step(plan), pieces.width);
}

ElementBounds::ElementBounds(const Product& product) {
  for (const ir::Bound& bound : product.kernel.outputs.front().where) {
    const bool of_column = std::ranges::any_of(product.c.n, [&](int v) { return bound.e.depends_on(v); });
    const int phase = phase_of(bound, product.c);
    (!of_column ? of_rows : phase < 0 ? of_columns : of_both).push_back(bound);
    if (of_column && phase >= 0) phases.insert(phase);
  }
}

void open_slots(PlaceWriter& writer, const CrossTileReduction& cross_tile, const Pieces& pieces) {
  writer.line(fmt::format("const int last = min(columns, end - x), first = x / {};", cross_tile.run));
  if (pieces.slots > 1) writer.line("#pragma unroll 1");
  writer.open(fmt::format("for (int slot = 0; slot < {}; ++slot) {{", pieces.slots));
  writer.line(fmt::format("const int from = (int)max((first + slot) * {0}ll - x, 0ll);", cross_tile.run));
  writer.line(fmt::format("const int to = (int)min((first + slot + 1) * {0}ll - x, (long long)last);", cross_tile.run));
  writer.line("if (from >= to) break;");
}

std::string print_column(PlaceWriter& writer, const Product& product, std::string_view linear) {
  if (product.implicit) return print_position(writer, *product.implicit, linear);
  writer.decode(linear, product.c.n);
  return {};
}

}  // namespace planish::codegen::contraction
