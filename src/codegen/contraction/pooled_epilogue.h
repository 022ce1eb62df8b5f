#pragma once

#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/plan.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// The epilogue of a product whose results are folded by windows: `store_sums` is called with whole tiles of a plan,
/// all columns of some rows at once. Each thread folds windows of its own, and does what follows.
Epilogue print_pooled_epilogue(const Product& product, const TilePlan& plan, bool fast = false);

}  // namespace planish::codegen::contraction
