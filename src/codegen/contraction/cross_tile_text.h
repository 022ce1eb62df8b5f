#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/contraction/cross_tile.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/plan.h"
#include "codegen/contraction/product.h"

/// Text, over names of the caller's, of where pieces of sums and their columns lie (see cross_tile.h).
namespace planish::codegen::contraction {

/// The first state of a piece, an offset in floats: of product `batch` and of these.
std::string place_of_piece(const Product& product, const Pieces& pieces, std::string_view row, std::string_view piece,
                           std::string_view slot);
/// The piece that a column lies in.
std::string piece_of(const Pieces& pieces, const TilePlan& plan, std::string_view column);
/// The first column of a piece.
std::string start_of(const Pieces& pieces, const TilePlan& plan, std::string_view piece);

/// Which results are elements, those computed beside them not: bounds of rows alone, of columns alone, and of columns
/// and a phase of rows (see phase_of()), and these phases.
struct ElementBounds {
  explicit ElementBounds(const Product& product);

  std::vector<ir::Bound> of_rows, of_columns, of_both;
  std::set<int> phases;
};

/// Opens the loop over the runs that a piece from column `x` on, of `columns` up to `end`, has columns of: `slot` is
/// one, `from` and `to` are its columns behind `x`.
void open_slots(PlaceWriter& writer, const CrossTileReduction& cross_tile, const Pieces& pieces);

/// Prints coordinates of the results' column that the expression `linear` counts; the condition under which it is not
/// one of those behind the last of a dim, empty where there are none.
std::string print_column(PlaceWriter& writer, const Product& product, std::string_view linear);

}  // namespace planish::codegen::contraction
