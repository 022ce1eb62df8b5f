#pragma once

#include "codegen/lower/lowering.h"

/// Private to codegen/lower: which of several parts, one after the other, a row belongs to.
namespace planish::codegen {

/// How many of `count` ends, which do not fall and lie from the `first` element of the value `ends` on, are at most the
/// row. A binary search, whose steps look at half as many ends each (codegen/grouped/grouped.h reads it back).
Result<int> ends_reached(Lowering& low, int ends, const ir::IndexExpr& row, std::int64_t first, std::int64_t count);

}  // namespace planish::codegen
