#pragma once

#include "codegen/contraction/pack.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// A kernel that computes those results again whose sums met something that is not finite where there was nothing to
/// multiply (see Product::taps): Inf times the zero that stands there is NaN. Arguments: `inputs`, all outputs, and the
/// notes that packing left (see emit_contraction()). All that it does mostly is to look at these.
///
/// Expects wasted() of the product, and of its folds that they are of whole dims.
Packing print_mending(const Product& product, int multiprocessors);

}  // namespace planish::codegen::contraction
