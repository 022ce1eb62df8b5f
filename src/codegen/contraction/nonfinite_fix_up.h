#pragma once

#include "codegen/contraction/pack.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// A kernel that computes those results again whose sums met something that is not finite where there was nothing to
/// multiply (see Product::taps): Inf times the zero that stands there is NaN. Arguments: `inputs`, all outputs, and the
/// notes that packing left (see emit_contraction()). All that it does mostly is to look at these.
///
/// Expects wasted() of the product, and of its folds that they are of whole dims. Where it has a CrossTileReduction,
/// the outputs are those that have elements, of which there are some.
Packing print_fix_up(const Product& product, int multiprocessors);
/// The same of the pieces of a CrossTileReduction: those that have a result of an image with such an element.
/// Arguments: `inputs`, the pieces, and the notes.
Packing print_piece_fix_up(const Product& product, const TilePlan& plan, int multiprocessors);

}  // namespace planish::codegen::contraction
