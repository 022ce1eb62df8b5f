#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// Prints where the windows of a tile, which a product's results are folded by, and their elements lie: as coordinates
/// of columns (and of what products have in common), in texts that know `x`, the tile's first column.
class WindowPlaces {
 public:
  /// Of a product with a Pool; both arguments must outlive this.
  WindowPlaces(const Product& product, const TilePlan& plan);

  /// Variables that differ between windows: those of columns, but what is folded as a whole.
  const std::vector<int>& outer() const { return outer_; }

  /// What all windows of the tile have in common.
  void of_tile(PlaceWriter& writer) const;
  /// Coordinates of a window's first element, from the expression `window`, which counts those of a run, and what
  /// of_element() needs. Returns the condition under which there is such a window.
  std::string of_window(PlaceWriter& writer, std::string_view window) const;
  /// Coordinates of the element of column `c` and row (run) `run` of the window.
  void of_element(PlaceWriter& writer, std::string_view run, std::string_view c) const;

 private:
  const Product& product_;
  const TilePlan& plan_;
  std::int64_t window_ = 1;  ///< columns
  std::vector<int> inner_, outer_;
};

}  // namespace planish::codegen::contraction
