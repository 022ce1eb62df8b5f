#pragma once

#include <cstdint>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/plan.h"
#include "codegen/kernel.h"

/// Sums over more of a contraction's results than one tile has: the statistics of a norm that follows, the mean of a
/// whole plane. Each warp folds the piece of a tile that it stores and leaves what that comes to in memory; a second
/// kernel joins the pieces of each result. Elements may be stored beside. Pure; thread-safe.
///
/// Means and squared distances from them are folded piece by piece with each piece's own mean, and joined by Chan,
/// Golub and LeVeque's formula (Updating formulae and a pairwise algorithm for computing sample variances, 1979), in
/// fp64: as accurate as two sweeps.
namespace planish::codegen::contraction {

/// A sum, and perhaps the sum of squared distances from the mean that it gives: reductions of the kernel.
struct CrossTileFold {
  int sum = -1, squares = -1;
  /// Floats of a piece: the sum; or the mean, the squares and how many elements there are.
  int states() const { return squares < 0 ? 1 : 3; }
};

struct CrossTileReduction {
  std::vector<CrossTileFold> folds;
  std::vector<int> kept;     ///< outer variables that folds' results move with, ascending
  std::vector<int> folded;   ///< the others of rows and products, ascending: their pieces are joined
  std::vector<int> columns;  ///< of `kept`, those of columns, which are the first of these
  std::int64_t run = 1;      ///< columns behind each setting of those: all that is folded of a row
  std::size_t elements = 0;  ///< outputs of the kernel, the first ones, that have an element for each result
  std::vector<int> order;    ///< by output of the product's kernel: which of the given one it is
  /// What is folded of a sum follows from it and its row: threads fold the sums that they hold.
  bool in_registers = false;

  int states() const;
};

/// The variable of rows that has a part in whether columns are elements: one of few phases. -1 where there is none.
int phase_of(const ir::Bound& bound, const Contraction& c);

/// The kernel that folds results across, as if it did not: outputs that have elements first, and no variables across.
struct CrossTileKernel {
  Kernel kernel;
  std::size_t elements = 0;  ///< see CrossTileReduction
  std::vector<int> order;
  double count = 1;  ///< elements that each fold sums up
};
CrossTileKernel cross_tile_kernel(const Kernel& kernel);

/// What of `kernel`, which is `from`'s (phases and blocks in place of variables perhaps), is folded, where `c` says
/// what columns are. Error kind `unsupported` for folds that are not sums, that wait for others (but for the distances
/// from a mean), or that lie otherwise.
Result<CrossTileReduction> cross_tile_of(const Kernel& kernel, const CrossTileKernel& from, const Contraction& c,
                                         const ImplicitOperand* implicit);

/// How tiles' columns are cut into pieces: `width` columns each, the last of a tile perhaps fewer.
struct Pieces {
  std::int64_t width = 1, of_tile = 1, count = 1;
  std::int64_t slots = 1;  ///< runs that a piece may have columns of
};
Pieces pieces_of(const CrossTileReduction& cross_tile, const Problem& problem, const TilePlan& plan);
/// Of all pieces.
std::int64_t cross_tile_bytes(const CrossTileReduction& cross_tile, const Problem& problem, const TilePlan& plan);

}  // namespace planish::codegen::contraction
