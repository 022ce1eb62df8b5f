#pragma once

#include <string>

#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// Text of `fold_sums` (see EpilogueVisitor::folds), of a product whose CrossTileReduction is in registers: folds the
/// pieces of the 16 rows whose sums a warp's threads hold, as the tensor core leaves them, without handing them on.
/// `whole` says what it is given.
std::string print_register_folds(const Product& product, const TilePlan& plan, bool fast, const Epilogue& whole);

}  // namespace planish::codegen::contraction
