#pragma once

#include <cstdint>
#include <string>

#include "codegen/emit/cuda_plan.h"
#include "codegen/kernel.h"

/// Folding elements where others are stored: what the last sweep of a row leaves in scratch as pieces
/// (templates/segmented_row). Pure; thread-safe.
namespace planish::codegen::printing {

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

}  // namespace planish::codegen::printing
