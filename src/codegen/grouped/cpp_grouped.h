#pragma once

#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/grouped/grouped.h"

/// Products of groups of rows on a processor, by the device file `cpu/grouped_product.h`: nothing is computed of the
/// factors' elements, nor of the results but their rounding. Pure; thread-safe.
namespace planish::codegen {

/// Why the device file does not compute this kernel, of which `grouped` says what it is; empty where it does. The rest
/// of this file expects that.
std::string cpp_grouped_lacks(const Kernel& kernel, const Grouped& grouped);

std::vector<Gene> cpp_grouped_genes(const Kernel& kernel, const Grouped& grouped, const Device& device);
std::string cpp_grouped_illegal(const Kernel& kernel, const Grouped& grouped, const Genome& genome);
std::vector<Genome> cpp_grouped_seeds(const Kernel& kernel, const Grouped& grouped, const Device& device);
/// Error kind `illegal_genome`.
Result<Emitted> emit_cpp_grouped(const Kernel& kernel, const Grouped& grouped, const Device& device,
                                 const Genome& genome);

}  // namespace planish::codegen
