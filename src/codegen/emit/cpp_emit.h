#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// The C++ (CPU) emitter: one fused kernel and a genome become one self-contained C++17 translation unit with
/// `extern "C" void k0(void** args)`, to be compiled with `-O3 -march=<arch> -std=c++17 -fopenmp -fno-math-errno
/// -fno-trapping-math` and never with -ffast-math. Pure functions of their arguments; thread-safe.
namespace planish::codegen {

/// Error kinds: `illegal_genome`, `unsupported`.
Result<Emitted> emit_cpp(const Kernel& kernel, const Device& device, const Genome& genome);
/// Genes that matter for this kernel, each with the choices that can make sense on this device.
std::vector<Gene> cpp_genes(const Kernel& kernel, const Device& device);
/// Empty if legal, else the reason.
std::string cpp_illegal(const Kernel& kernel, const Device& device, const Genome& genome);
/// Best guess first; every one is legal; empty only for a kernel that cannot be emitted.
std::vector<Genome> cpp_seeds(const Kernel& kernel, const Device& device);

}  // namespace planish::codegen
