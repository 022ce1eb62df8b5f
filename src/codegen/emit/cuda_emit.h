#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/genome.h"
#include "codegen/kernel.h"

/// CUDA C++ for one kernel: header-free source, constexpr shapes, one entry `planish_kernel`. Pure functions;
/// thread-safe.
namespace planish::codegen::printing {

Result<Emitted> emit_cuda(const Kernel& kernel, const Device& device, const Genome& genome);
std::vector<Gene> cuda_genes(const Kernel& kernel, const Device& device);
/// Empty if legal. Expects every gene of cuda_genes to be present with one of its choices (genome.cpp has checked).
std::string cuda_illegal(const Kernel& kernel, const Device& device, const Genome& genome);
/// Genes that say how a team of blocks owns a row.
bool is_of_teams(std::string_view gene);
/// False for genes that stay at their first choice where a team of blocks owns a row.
bool team_knows(std::string_view gene);
struct PlanFacts;
/// The same with the kernel's facts at hand.
std::string cuda_illegal(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome);
/// Best first; legality is filtered by the caller.
std::vector<Genome> cuda_seeds(const Kernel& kernel, const Device& device);

/// Memory, shuffle and cluster helpers, after prelude(true).
std::string_view cuda_memory_prelude();
/// Before it where blocks of a launch wait for each other.
std::string_view team_prelude();

}  // namespace planish::codegen::printing
