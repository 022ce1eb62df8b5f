#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Kernels that fold parts of their rows (codegen/parts.h) as an ordinary row kernel whose last sweep folds elements
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
  std::shared_ptr<const PlanFacts> facts;  ///< of `kernel`
};

/// True where the last sweep folds some elements.
bool folds_pieces(const Kernel& kernel);
/// True where it stores some.
bool writes_elements(const Kernel& kernel);

/// Which pieces the schedule makes: Pieces::lanes is 0 where it can make none. A row is swept in slices of
/// `slice_vectors` that begin anew (0: as a whole), of which the trips from `kept_trips` on come first (0: none do).
void plan_pieces(const Kernel& kernel, std::int64_t slice_vectors, std::int64_t kept_trips, CudaPlan& plan);
/// The length of a slice, `least` at least, that makes pieces large, while there are no fewer than `fewest` slices.
std::int64_t slice_of_pieces(const Kernel& kernel, const CudaPlan& plan, std::int64_t least, std::int64_t fewest);
/// Empty where the schedule can fold what the kernel folds; or it folds nothing.
std::string pieces_illegal(const Kernel& kernel, const CudaPlan& plan);

/// What makes parts' outputs of pieces, as a kernel: its first inputs are the pieces, of shape [parts][pieces of one],
/// in the order of Parted::reduction_of; `inputs` receives which of the whole kernel's own follow them, `outputs` which
/// are written.
Kernel joining_kernel(const Kernel& kernel, std::int64_t pieces_of_row, std::vector<int>& inputs,
                      std::vector<int>& outputs);

Result<Emitted> emit_parts(const Kernel& kernel, const Device& device, const Genome& genome);

/// The launches of an ordinary kernel over scratch, behind those of `whole` and in terms of its tensors: `buffers` says
/// which of them are the kernel's inputs, `outputs` its outputs.
Status append_launches(const Kernel& kernel, const Device& device, const std::vector<Emitted::Argument>& buffers,
                       const std::vector<int>& outputs, Emitted& whole);

}  // namespace planish::codegen::printing
