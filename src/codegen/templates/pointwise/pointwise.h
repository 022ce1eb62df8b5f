#pragma once

#include <vector>

#include "codegen/genome.h"
#include "codegen/kernel.h"

namespace planish::codegen::printing {

/// Of kernels that have one element for each point, windows among them.
std::vector<Gene> pointwise_genes(const Kernel& kernel);

}  // namespace planish::codegen::printing
