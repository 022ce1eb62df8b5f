#pragma once

#include "codegen/kernel.h"

namespace planish::codegen {

/// What scores are made of is computed once for all columns of the values, although a fold's result counts as moving
/// with all outer variables.
Cost attention_cost(const Kernel& kernel);

}  // namespace planish::codegen
