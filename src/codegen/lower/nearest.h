#pragma once

#include "codegen/lower/lowering.h"

/// Private to codegen/lower.
namespace planish::codegen {

/// An image of another size, of whose elements each is the nearest one: (places · n + half) / results of them, where
/// that is what PyTorch's own arithmetic gives.
Result<int> nearest(const Site& s);

}  // namespace planish::codegen
