#pragma once

#include "codegen/kernel.h"

/// What devices whose tensor cores are asked by mma.sync have schedules for: products of two 16-bit tensors where they
/// lie, attention of such tensors, and few rows with large matrices. Pure; thread-safe.
namespace planish::codegen {

/// Whether the kernel multiplies matrices that are none of these: where it does, PyTorch's libraries are faster than
/// rows of its own would be.
bool multiplies_wide(const Kernel& kernel);

}  // namespace planish::codegen
