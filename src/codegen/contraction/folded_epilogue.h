#pragma once

#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// What is done with the sums of a product whose results are folded over whole dims (Pool::whole): `tc_store` of 8 rows
/// and all columns of a tile, which holds whole windows. Four neighbouring lanes share a row. `fast` as
/// print_epilogue() has it.
Epilogue print_folded_epilogue(const Product& product, const TilePlan& plan, bool fast = false);

}  // namespace planish::codegen::contraction
