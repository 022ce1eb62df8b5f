#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/plan.h"
#include "codegen/kernel.h"

/// Folds of what a contraction sums up: max and average pools that follow a convolution, or a product, and whatever is
/// computed between both; or folds over whole dims of its results (the largest of all channels). Windows lie beside
/// each other, so that each result is in one of them at most, and are folded where a tile's results are stored. Pure;
/// thread-safe.
namespace planish::codegen::contraction {

/// In one dim: `size` neighbouring values of a variable of the kernel's space, which begin at multiples of it.
struct PoolWindow {
  int variable = -1;
  std::int64_t size = 1;
};

struct Pool {
  std::vector<int> reductions;      ///< of the kernel, in order: fold over the windows; one, unless `whole`
  std::vector<PoolWindow> windows;  ///< ascending in `variable`
  bool whole = false;               ///< each window is all that its variable has, and no result knows that

  bool has(int variable) const;                 ///< a window along it
  std::int64_t size_along(int variable) const;  ///< 1 where there is no window along it
};

struct Unpooled {
  Kernel kernel;  ///< without Kernel::across
  Pool pool;
};

/// `kernel`, whose last outer variables lie within windows (Kernel::across), with one variable y = size · Y + w in
/// place of a window's Y and its w: what is folded then is a contraction over y, and what follows knows y / size. Where
/// factors know w alone, or another w alone, and with `whole`, all w stay, and are folded as a whole. Error kind
/// `unsupported` where factors know Y and w otherwise, and for folds that look for positions.
Result<Unpooled> unpooled(const Kernel& kernel, bool whole = false);

/// How tiles of a factor lie so that they hold whole windows. `sliding`: how it slides; null where rows of it are
/// packed row by row, and then windows lie along the last of `columns`, its variables, or are the last of these as a
/// whole. Error kind `unsupported` where
/// no tiles do.
Result<Folding> folding_of(const Pool& pool, const ImplicitOperand* implicit, const std::vector<int>& columns);

}  // namespace planish::codegen::contraction
