#pragma once

#include "program/program.h"

/// Operators of PyTorch's that do nothing for the caller. One of them makes the interpreter run the whole program, step
/// by step, and keeps it out of a graph of kernels.
namespace planish::codegen {

/// Takes out operators whose results nobody reads, and views (another shape or order of dims) of what a launch writes:
/// whoever reads such a view, or is given it, finds the same memory in the launch's own buffer. Buffers that nothing
/// names any more go, and the others are numbered anew.
void leave_out_idle_steps(program::Program& program);

}  // namespace planish::codegen
