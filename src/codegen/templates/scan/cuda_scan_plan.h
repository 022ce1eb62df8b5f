#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/kernel.h"
#include "codegen/templates/column/cuda_column_plan.h"

/// The scan schedule. A row is taken in chunks, which threads share; what it held before a chunk is carried along in
/// registers. Threads of a warp hold neighbouring vectors (rows), or each a few steps of its own columns (columns).
/// Blocks may share a row too (`slices`): one launch leaves the total of every slice in scratch, the next begins with
/// the totals before its slice. Pure; thread-safe.
namespace planish::codegen::printing {

/// How one scan is kept, as texts.
struct ScanState {
  std::string type;   ///< struct of the prelude
  std::string carry;  ///< the same between chunks: wider for sums of fp32
  std::string none;   ///< a state of no element
  int words = 1;      ///< 32-bit registers
  int carry_bytes = 8;
};

struct ScanPlan {
  ColumnPlan column;  ///< lanes, accesses, threads, slices, and the reductions before the scan
  std::vector<ScanState> states;
  bool ahead = false;            ///< the next chunk is loaded before the one at hand is folded
  std::int64_t chunks = 0;       ///< of a slice
  int segment = 1;               ///< rows: threads of a warp that share a row
  std::int64_t state_bytes = 0;  ///< of all carries together
  std::int64_t scratch_bytes = 0;
  std::int64_t totals_bytes = 0;  ///< static shared memory in which threads exchange totals
  std::vector<int> folded;        ///< nodes that the scans' arguments need within the sweep, ascending
  std::vector<int> stored;        ///< nodes that the outputs need within the sweep
  std::vector<int> loads;         ///< what one of them brings from memory
  int registers = 0;              ///< estimate
};

/// The genome must hold values of scan_genes.
ScanPlan make_scan_plan(const Kernel& kernel, const Device& device, const Genome& genome);

std::vector<Gene> scan_genes(const Kernel& kernel, const Device& device);
/// Empty if legal.
std::string scan_illegal(const Kernel& kernel, const Device& device, const Genome& genome);
std::vector<Genome> scan_seeds(const Kernel& kernel, const Device& device);
Result<Emitted> emit_scan(const Kernel& kernel, const Device& device, const Genome& genome);
/// Structs and functions that the texts of ScanState name.
std::string_view scan_prelude();

}  // namespace planish::codegen::printing
