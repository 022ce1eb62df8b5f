#pragma once

#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// The epilogue that takes the sums of a product with a CrossTileReduction: `store_sums` folds the piece that it is
/// called with, which is 8 rows of what one exchange holds, and stores the elements, if there are some. Behind the
/// outputs of elements comes one more parameter, `pieces`: cross_tile_bytes() of memory, of which all that are pieces
/// of something are written.
Epilogue print_cross_tile_epilogue(const Product& product, const TilePlan& plan, StoreForm form);

/// The kernel that joins the pieces, a few lanes, a warp or a block for each result. Arguments: the pieces, its inputs,
/// then the outputs that are folds' results.
Packing print_cross_tile_joining(const Product& product, const TilePlan& plan, bool fast);

}  // namespace planish::codegen::contraction
