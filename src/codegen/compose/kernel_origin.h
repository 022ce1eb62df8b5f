#pragma once

#include "codegen/compose/compose.h"
#include "program/program.h"

/// Private to codegen/compose: what a program's kernel was emitted from.
namespace planish::codegen {

/// The region, and its text. Borrowed.
struct KernelOrigin {
  const Region* region = nullptr;
  const Emitted* emitted = nullptr;
};

/// The buffer that a launch is given for an input, or output, of the kernel that it was emitted from; -1: none.
int buffer_of(const program::Launch& launch, const KernelOrigin& origin, Emitted::Argument::Kind kind, int index);

}  // namespace planish::codegen
