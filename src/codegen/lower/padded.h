#pragma once

#include <vector>

#include "codegen/lower/lowering.h"

/// Private to codegen/lower.
namespace planish::codegen {

/// The value `id`, in the compute dtype of `dtype`, at coordinates that may lie outside: `fill` where one of `bounds`
/// does not hold. Bounds that always hold may be among them.
Result<int> padded(Lowering& low, int id, const Coords& coords, std::vector<ir::Bound> bounds, DType dtype,
                   double fill);

}  // namespace planish::codegen
