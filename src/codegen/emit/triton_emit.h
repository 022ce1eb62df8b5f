#pragma once

#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Triton for one kernel: a Python module with one `@triton.jit` function `planish_kernel`, constant shapes, pointers
/// in the order inputs, outputs. It shares the CUDA emitter's genes where they mean the same (threads, vector, unroll,
/// rows, residency, hints, fast); the gene `language` chooses between the two. Pure functions; thread-safe.
namespace planish::codegen::printing {

/// Values of the gene `language` on a GPU.
enum class Language : std::uint8_t { cuda = 0, triton = 1 };

/// Of points or rows, which templates ask for: empty where this emitter can print the kernel, else what it lacks.
std::string triton_lacks(const Kernel& kernel);
/// Empty if legal. `genes` are the kernel's genes on this device, each present in the genome with one of its choices.
std::string triton_illegal(const Kernel& kernel, const std::vector<Gene>& genes, const Genome& genome);
/// A few, best first; every one is legal. May be empty.
std::vector<Genome> triton_seeds(const Kernel& kernel, const Device& device, const std::vector<Gene>& genes);
Result<Emitted> emit_triton(const Kernel& kernel, const Genome& genome);

}  // namespace planish::codegen::printing
