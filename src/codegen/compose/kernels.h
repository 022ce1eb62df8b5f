#pragma once

#include "program/program.h"

/// Private to codegen/compose: the kernels of a program whose launches are being joined.
namespace planish::codegen {

/// The number of this kernel, which is added where the program has none like it.
int kernel_number(program::Program& program, program::KernelSource kernel);

/// Drops kernels that no step launches, and numbers the others anew.
void drop_kernels(program::Program& program);

}  // namespace planish::codegen
