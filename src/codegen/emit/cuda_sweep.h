#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// What kernels share that one launch sweeps, point by point or row by row: pointwise kernels, windows and rows. Pure;
/// thread-safe.
namespace planish::codegen::printing {

/// Genes of all: threads, accesses, approximations (`fast`: its choices), and what is masked.
std::vector<Gene> sweep_genes(const Kernel& kernel, std::int64_t least_threads, const std::vector<std::int64_t>& fast);
/// Empty if legal. Expects every gene to be present with one of its choices, and those of a team at 0.
std::string sweep_illegal(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome);
/// Best first. `all` are the kernel's genes.
std::vector<Genome> sweep_seeds(const Kernel& kernel, const PlanFacts& facts, const Device& device,
                                const std::vector<Gene>& all);

}  // namespace planish::codegen::printing
