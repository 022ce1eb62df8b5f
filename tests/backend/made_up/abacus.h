#pragma once

#include "backend/backend.h"
#include "worker/kernel_compiler.h"

/// A target that does not exist, in one folder: all that Planish asks of one to make, compile and file kernels for it.
namespace planish::made_up {

/// Adds it to the targets, once a process.
const backend::Backend& abacus();
/// What compiles its language. A stand-in for a compiler: the binary is the text, its report what the text is made of.
worker::Compilers::Start abacus_compiler();

}  // namespace planish::made_up
