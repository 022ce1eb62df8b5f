#pragma once

#include <string>
#include <vector>

#include "codegen/emit/cuda_writer.h"

/// Elements that a chunk of a sweep looks at twice (see OnlinePair): for what the chunk says by itself, and relative to
/// that. What is dear to compute is kept between the looks, in no more registers than the vectors that it is made of.
namespace planish::codegen::printing {

class KeptElements {
 public:
  /// For chunks of `unroll` vectors of `width` elements each. Borrows both.
  KeptElements(const Kernel& kernel, CudaWriter& writer, int unroll, int width)
      : kernel_(kernel), writer_(writer), unroll_(unroll), width_(width) {}

  /// How the second look spells node `x`. Where it is kept, declares it and lets `first`, what the first look does with
  /// each lane, set it.
  std::string second_name(int x, std::string& first);
  /// Of `nodes`, ascending, which the first look computes: those that the second does as well.
  std::vector<int> computed_again(const std::vector<int>& nodes) const;

 private:
  const Kernel& kernel_;
  CudaWriter& writer_;
  int unroll_, width_;
  std::vector<int> kept_, others_;
};

}  // namespace planish::codegen::printing
