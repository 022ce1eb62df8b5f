#pragma once

#include "codegen/contraction/boxes.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/product.h"

/// Functors of the device file of products (sm90/product.cuh) whose rows are places in boxes: loads and places. Private
/// to codegen/contraction.
namespace planish::codegen::contraction {

/// A plan whose boxes (see boxes.h) are those of these tiles.
TilePlan boxes_plan(const DeviceTiling& tiling);

class BoxLoads {
 public:
  /// Loads of a product with boxes, whose second factor may be packed by taps (tap_packing.h).
  BoxLoads(const Product& product, const DeviceTiling& tiling);

  const BoxPlaces& places() const { return places_; }
  /// `Taps` and taps(), then of both operands map_…() and load_…().
  void print(PlaceWriter& writer, bool bf16) const;

 private:
  std::vector<int> taps() const;
  void print_taps(PlaceWriter& writer) const;
  void operand(PlaceWriter& writer, Operand operand, bool bf16) const;
  void packed(PlaceWriter& writer, bool bf16) const;
  bool is_packed() const { return !product_.boxes_b; }

  const Product& product_;
  const DeviceTiling& tiling_;
  const BoxPlaces places_;
  const std::int64_t depth_;  ///< of a tap
};

}  // namespace planish::codegen::contraction
