#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Genes of rows that memory runs along, and what is tried first of them. Pure; thread-safe.
namespace planish::codegen::printing {

std::vector<Gene> row_genes(const Kernel& kernel, const Device& device);
/// Nothing where no gene asks for a cooperative group of blocks; else why the others do not suit one, empty if they do.
std::optional<std::string> foreign_to_cooperative(const Genome& genome);
/// Adds to sweep_seeds() those that arrive in stages, and those that are done by teams. `all` are the kernel's genes.
void add_row_seeds(const Kernel& kernel, const PlanFacts& facts, const Device& device, const std::vector<Gene>& all,
                   std::vector<Genome>& seeds);

}  // namespace planish::codegen::printing
