#pragma once

#include <string>
#include <string_view>

#include "codegen/genome.h"
#include "codegen/kernel.h"

/// CUDA C++ for one kernel: header-free source, constexpr shapes, one entry `planish_kernel`. Pure functions;
/// thread-safe.
namespace planish::codegen::printing {

struct PlanFacts;

/// Where several outputs below each other are a thread's, its loads are shared between them.
Result<Emitted> emit_window(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome);
Result<Emitted> emit_pointwise(const Kernel& kernel, const PlanFacts& facts, const Device& device,
                               const Genome& genome);
Result<Emitted> emit_row(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome);

/// The machine's approximations and short forms of functions, after prelude(true); part of the next.
std::string_view fast_prelude();
/// Memory, shuffle and cluster helpers, after prelude(true).
std::string_view cuda_memory_prelude();
/// Before it where blocks of a launch wait for each other.
std::string_view cooperative_prelude();

}  // namespace planish::codegen::printing
