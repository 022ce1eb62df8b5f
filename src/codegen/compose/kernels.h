#pragma once

#include "program/program.h"

/// Private to codegen/compose: the kernels and buffers of a program that is being composed.
namespace planish::codegen {

/// The number of this kernel, which is added where the program has none like it.
int kernel_number(program::Program& program, program::KernelSource kernel);

/// Inputs, parameters and constants: what a launch may read while others before it still run.
bool is_never_written(const program::Program& program, int buffer);

/// Drops kernels that no step launches, and numbers the others anew.
void drop_kernels(program::Program& program);

}  // namespace planish::codegen
