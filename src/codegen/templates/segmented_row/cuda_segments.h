#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Kernels that fold parts of their rows (codegen/segments.h) as an ordinary row kernel whose last sweep folds elements
/// where others store them: a warp's vectors of one turn lie in one part, as do some turns of each thread, and one lane
/// leaves the fold of these, a piece, in scratch. Launches of an ordinary kernel over the pieces follow, which fold
/// those of each part in a fixed order and compute what is made of parts. Pure; thread-safe.
namespace planish::codegen::printing {

/// The launch that knows rows.
struct Parted {
  explicit Parted(const Kernel& kernel);
  Kernel kernel;  ///< row anchor, with the inputs of the whole; behind its own outputs those that are folded
  std::vector<int> output_of;     ///< by output: the whole kernel's, −1 for those that are folded
  std::vector<int> reduction_of;  ///< by output: the `part` reduction of the whole kernel that it folds, else −1
};

/// What makes parts' outputs of pieces, as a kernel: its first inputs are the pieces, of shape [parts][pieces of one],
/// in the order of Parted::reduction_of; `inputs` receives which of the whole kernel's own follow them, `outputs` which
/// are written.
Kernel joining_kernel(const Kernel& kernel, std::int64_t pieces_of_row, std::vector<int>& inputs,
                      std::vector<int>& outputs);

/// Adds to the launch that knows rows, `rows`, those that join its pieces: the whole kernel.
Result<Emitted> join_segments(const Kernel& kernel, const Parted& parted, const Device& device, const Genome& genome,
                              Emitted rows);

}  // namespace planish::codegen::printing
