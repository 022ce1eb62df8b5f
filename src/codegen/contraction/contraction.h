#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"
#include "codegen/passes.h"

/// What holds in a kernel of the `contraction` anchor: a matrix product with what is computed of its operands' elements
/// before it and of its results after it.
///
/// It is a row kernel in every respect (a row emitter could emit it, slowly) whose one reduction is a sum in f32, or of
/// integers in i32, of the product of two factors. The inner variables, k, move both factors; of the outer ones m moves
/// the first, n the second, and batch both. Nodes of the factors are the prologue, nodes that need the reduction's
/// result the epilogue; every output has one element for each setting of the outer variables. Or, with Kernel::across,
/// of those but the last ones, which further reductions fold: what needs the first result alone is computed of each
/// element (see pooled.h). Pure; thread-safe.
namespace planish::codegen {

struct Contraction {
  int first = -1, second = -1;      ///< nodes: the factors, f32 or i32; the first moves with m, the second with n
  std::vector<int> batch, m, n, k;  ///< variables of the space, each ascending; n has the one that memory of the
                                    ///< first output runs along, unless that is batch
  std::int64_t batches = 1, rows = 1, columns = 1, depth = 1;  ///< their extents multiplied
};

/// The parts of a kernel that folds products of two factors. Error kind `unsupported` where it is not one: another
/// fold, another type, or a factor that does not move with an outer variable of its own (a vector, which rows are
/// folded by faster).
Result<Contraction> contraction_of(const Kernel& kernel);

/// Who asks a device's tensor cores for products, in schedules of ours.
enum class TensorCores : std::uint8_t {
  none,
  warps,       ///< mma.sync: products of two 16-bit tensors, attention of such, and few rows of anything
  warpgroups,  ///< wgmma: all products and convolutions
};
TensorCores tensor_cores(const Device& device);

/// Whether contractions have a schedule of their own on this device. Elsewhere PyTorch's libraries stay what computes
/// matrix products, and the anchor is emitted as rows.
inline bool schedules_contractions(const Device& device) {
  return tensor_cores(device) != TensorCores::none;
}

/// The same kernel as rows to fold.
Kernel as_rows(const Kernel& kernel);

}  // namespace planish::codegen
