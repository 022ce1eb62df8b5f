#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "codegen/contraction/boxes.h"
#include "codegen/contraction/contraction.h"
#include "codegen/contraction/cross_tile.h"
#include "codegen/contraction/direct.h"
#include "codegen/contraction/eight_bits.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/plan.h"
#include "codegen/contraction/pooled.h"

namespace planish::codegen::contraction {

/// What a contraction kernel multiplies, and how its factors lie: all that tile plans are made for.
struct Product {
  Kernel kernel;  ///< what is emitted: the kernel with phases in place of variables that move both factors, and with
                  ///< blocks of places where channels are few
  /// Where one of these does not hold there is nothing to multiply, though zeros are (see Phased and Blocked).
  std::vector<ir::Bound> taps;
  Contraction c;  ///< of `kernel`
  std::optional<ImplicitOperand> implicit;
  std::optional<Pool> pool;                      ///< windows that results are folded by; the kernel then is unpooled()
  std::optional<CrossTileReduction> cross_tile;  ///< sums of results that more than one tile has
  std::optional<Direct> direct_a, direct_b;      ///< factors that need no packing
  std::optional<EightBits> bits;                 ///< of 8-bit factors that are multiplied as they are, and direct
  std::optional<Boxes> boxes_a, boxes_b;  ///< where the problem is boxed: of factors that come so, which are direct
  /// Zeros, where it is in boxes, in k behind a tap's channels, of which other packings than by taps (tap_packing.h)
  /// know nothing, and the other factor is packed.
  bool gaps = false;
  /// Columns that tiles may share so that results leave in whole sectors (see overlap_of()), without `interleave` and
  /// with.
  std::array<int, 2> overlap{};
  Problem problem;
  std::shared_ptr<const Product>
      swapped;                           ///< the same with its factors' parts exchanged; null where it has only one way
  std::shared_ptr<const Product> boxed;  ///< the same with tiles that are boxes (see boxes.h); null where none are
  std::shared_ptr<const Product> eight;  ///< the same with factors in 8 bits (see eight_bits.h); null where none are
  /// Of a CrossTileReduction with one output of elements: the product that these are, with columns as one variable;
  /// null elsewhere.
  std::shared_ptr<const Product> elements;

  const std::optional<Direct>& direct(Operand operand) const { return operand == Operand::a ? direct_a : direct_b; }
  const std::optional<Boxes>& boxes(Operand operand) const { return operand == Operand::a ? boxes_a : boxes_b; }
};

/// The contraction with that factor first whose rows the results' memory does not run along; or, where it runs through
/// phases of places, along these. Errors are contraction_of()'s.
Result<Contraction> oriented(const Kernel& kernel);

/// Errors are contraction_of()'s.
Result<Product> product_of(const Kernel& kernel);

/// Whether tensor cores may compute it, whatever the device: error kind `unsupported` says why not.
Status computable(const Product& product);

/// The 16-bit type whose values both factors have, all of them exactly; nothing where they have none in common.
std::optional<DType> narrow_type(const Kernel& kernel, const Contraction& c);
/// That the kernel writes.
double result_bytes(const Kernel& kernel);
/// Clocks of a product that the multiprocessors compute in `computed`: with what memory takes where that bounds it, at
/// `ghz`. The first factor is read once, each of `matrices` second ones as often as `times` says where it does not stay
/// in the L2 cache.
double clocks_with_memory(const Product& product, double computed, std::int64_t matrices, std::int64_t times,
                          double ghz, const Device& device);

/// The factor whose elements the tensor core multiplies with zeros where there is nothing to multiply; nothing where
/// there are no such places.
std::optional<Operand> wasted(const Product& product);

/// Whether tensor maps can bring the factors that are not packed, as they are.
bool has_boxes(const Product& product);

/// Images of what slides, each of which has its own scale, in all products; 1 where nothing slides.
std::int64_t noted_images(const Product& product);

}  // namespace planish::codegen::contraction
