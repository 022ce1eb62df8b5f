#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/genome.h"
#include "codegen/skinny/skinny.h"
#include "codegen/templates/template.h"

/// Skinny products on tensor cores, by device/sm90/skinny.cuh. Pure; thread-safe.
namespace planish::codegen {

/// A genome's choices, as the constants of a policy there.
struct SkinnyPlan {
  int tiles = 1, warps = 16, stages = 4, blocks = 132, resident = 1;
  bool ring_shared = true, x_shared = true, fast = false;
  bool table = false;   ///< scales and zero points of a block's rows wait in shared memory
  bool chained = true;  ///< it may begin before the launch before it has ended
};

namespace skinny {

/// What SkinnyLayout counts, in C++.
struct Layout {
  int groups = 1, columns = 1, chunks = 1;
  std::int64_t steps = 1, stage_bytes = 0, table_bytes = 0, shared_bytes = 0;
};
Layout layout_of(const Skinny& skinny, const SkinnyPlan& plan);

/// Lines of the source: what is the same for all such kernels comes before the first; the struct `Policy`, and then the
/// entry, follow.
inline constexpr std::string_view begin_of_policy = "// ---- policy ----\n", begin_of_entry = "// ---- entry ----\n";

/// The source of one kernel, `planish_kernel`, whose arguments are the inputs that it reads, ascending, and then all
/// outputs.
struct Printed {
  std::string source;
  std::vector<int> inputs;
};
Printed print(const Kernel& kernel, const Skinny& skinny, const SkinnyPlan& plan);

}  // namespace skinny

std::vector<Gene> skinny_genes(const Kernel& kernel, const Skinny& skinny, const Device& device);
std::string skinny_illegal(const Skinny& skinny, const Device& device, const Genome& genome);
std::vector<Genome> skinny_seeds(const Kernel& kernel, const Skinny& skinny, const Device& device);
Outline skinny_outline(const Skinny& skinny, const Device& device, const Genome& genome);
Result<Emitted> emit_skinny(const Kernel& kernel, const Skinny& skinny, const Device& device, const Genome& genome);

}  // namespace planish::codegen
