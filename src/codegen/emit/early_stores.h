#pragma once

#include <functional>
#include <vector>

#include "codegen/kernel.h"

/// When a row kernel stores what it stores of every element. Shared by the emitters. Pure; thread-safe.
namespace planish::codegen::printing {

/// By output: the sweep in which it is stored, p for the one that folds the reductions of phase p, phases(kernel) for
/// one of its own after all of them; -1 where it is stored once a row or a column. An output that needs no result of a
/// phase is stored as early as where fewest loads are repeated for it: with nothing else to store, there is no sweep
/// after the last fold. Where a later sweep reads the same anyway, that one stores it.
/// `folds`: false for a phase without a sweep, because an earlier one does its folding along.
std::vector<int> store_sweeps(const Kernel& kernel, const std::function<bool(int phase)>& folds);
/// Where every phase has a sweep.
std::vector<int> store_sweeps(const Kernel& kernel);
/// Whether some output, whatever is folded along, is stored after all phases (every output of other kernels than rows).
bool stores_last(const Kernel& kernel);

}  // namespace planish::codegen::printing
