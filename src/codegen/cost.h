#pragma once

#include "codegen/kernel.h"

/// What kernels must do, from which templates make their cost() (templates/template.h). Pure; thread-safe.
namespace planish::codegen {

/// Cost::bytes.
double least_bytes(const Kernel& kernel);
/// Of a kernel that computes each node once for each setting of the variables that the node moves with.
Cost streaming_cost(const Kernel& kernel);

}  // namespace planish::codegen
