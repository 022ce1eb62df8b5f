#pragma once

#include "codegen/kernel.h"

/// What kernels must do, from which templates make their cost() (templates/template.h). Pure; thread-safe.
namespace planish::codegen {

/// Cost::bytes.
double least_bytes(const Kernel& kernel);
/// Of a kernel that computes each node once for each setting of the variables that the node moves with.
Cost streaming_cost(const Kernel& kernel);
/// The operations of a kernel of rows or points, whose functions (a cosine, not an addition) are computed again for
/// each row or point, also where they do not move with all of them: a table's cosine that is read for many heads is
/// computed for each head.
double operations_again(const Kernel& kernel);

}  // namespace planish::codegen
