#pragma once

#include <string>
#include <string_view>

#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/plan.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction/spread.h"

/// Text, over names of the caller's, of where pieces of sums and their columns lie (see spread.h).
namespace planish::codegen::contraction {

/// The first state of a piece, an offset in floats: of product `batch` and of these.
std::string place_of_piece(const Product& product, const Pieces& pieces, std::string_view row, std::string_view piece,
                           std::string_view slot);
/// The piece that a column lies in.
std::string piece_of(const Pieces& pieces, const TilePlan& plan, std::string_view column);
/// The first column of a piece.
std::string start_of(const Pieces& pieces, const TilePlan& plan, std::string_view piece);

/// Prints coordinates of the results' column that the expression `linear` counts; the condition under which it is not
/// one of those behind the last of a dim, empty where there are none.
std::string print_column(PlaceWriter& writer, const Product& product, std::string_view linear);

}  // namespace planish::codegen::contraction
