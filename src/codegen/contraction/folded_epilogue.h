#pragma once

#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// Text of what is done with the sums of a product whose results are folded by windows (Folding::in_registers):
/// `fold_sums` (see EpilogueVisitor::folds) of 16 rows and all columns of a tile, which holds whole windows. Sums are
/// folded in the registers that the tensor core leaves them in; lanes that have a part of a window put theirs together.
/// `fast` as print_epilogue() has it.
Epilogue print_folded_epilogue(const Product& product, const TilePlan& plan, bool fast = false);

}  // namespace planish::codegen::contraction
