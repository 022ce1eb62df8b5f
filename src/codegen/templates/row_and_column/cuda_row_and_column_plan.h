#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"
#include "codegen/row_and_column.h"

/// The schedule of kernels that fold along rows and across them. A block takes a run of rows, its threads fixed columns
/// of them, whose running values stay in registers until the run's end, when the block leaves them in scratch. Where no
/// element needs its row's result, rows may be cut into strips, each with blocks of its own and no barrier: what a
/// strip says of a row lies in scratch, too. The launches that follow are ordinary kernels over what was left there:
/// they fold it in a fixed order, and compute what is made of it. Pure; thread-safe.
namespace planish::codegen::printing {

/// Running values of one kind: a scratch buffer each.
struct RowColumnField {
  int reduction = 0;
  std::string suffix;  ///< "" of a plain reduction; "m" and "s" of a pair
  DType dtype = DType::f32;
  std::string neutral;
};

struct RowColumnPlan {
  CudaPlan base;  ///< lanes, accesses, threads; `rows` rows are done side by side, `across` threads share each
  int ahead = 1;  ///< rows of a thread under way at a time
  int trips = 1;  ///< vectors of a row that a thread owns
  std::int64_t strips = 1;                  ///< parts of a row
  std::int64_t strip_vectors = 0;           ///< vectors of each; the last may have fewer
  std::int64_t chunks = 1;                  ///< runs of rows
  std::int64_t chunk_rows = 0;              ///< rows of each; the last may have fewer
  std::int64_t commons = 1, rows_each = 1;  ///< settings of the common variables, rows of each
  std::vector<RowColumnPair> row_pairs, column_pairs;
  std::vector<RowColumnField> row_fields;  ///< what strips leave of a row; none where blocks finish rows
  std::vector<RowColumnField> column_fields;
  std::vector<RowColumnLevel> levels;
  std::vector<int> held;  ///< loads that are one for all rows of a run, ascending
  std::int64_t static_shared = 0, scratch_bytes = 0;
  int registers = 0;  ///< estimate
  bool whole() const { return strips == 1; }
};

/// The genome must hold values of row_column_genes.
RowColumnPlan make_row_column_plan(const Kernel& kernel, const Device& device, const Genome& genome);

/// The launch that makes rows' (columns') outputs of what was left in scratch, as a kernel: its first inputs are the
/// fields, of shape [parts][cells], in order; `inputs` receives which of the kernel's own follow them, `outputs` which
/// are written.
Kernel gathering_kernel(const Kernel& kernel, const RowColumnPlan& plan, bool across, std::vector<int>& inputs,
                        std::vector<int>& outputs);

std::vector<Gene> row_column_genes(const Kernel& kernel, const Device& device);
/// Empty if legal.
std::string row_column_illegal(const Kernel& kernel, const Device& device, const Genome& genome);
std::vector<Genome> row_column_seeds(const Kernel& kernel, const Device& device);
Result<Emitted> emit_row_and_column(const Kernel& kernel, const Device& device, const Genome& genome);

}  // namespace planish::codegen::printing
