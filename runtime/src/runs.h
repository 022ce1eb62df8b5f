#pragma once

#include <cstdint>
#include <vector>

#include "document.h"

/// A strided tensor (or a pair of equal shape) as dense runs, so that `set` and `copy` become few large operations.
namespace planish::rt {

struct Runs {
  std::int64_t elements = 0;  ///< in each run; dense on both sides
  std::int64_t count = 0;
  std::vector<std::int64_t> shape, a, b;  ///< the outer loop over runs, element strides on either side

  /// Calls body(offset_a, offset_b), in elements, for each run.
  template <typename Body>
  void each(Body&& body) const {
    std::vector<std::int64_t> index(shape.size(), 0);
    std::int64_t at_a = 0, at_b = 0;
    for (std::int64_t done = 0; done < count; ++done) {
      body(at_a, at_b);
      for (std::size_t d = shape.size(); d-- > 0;) {
        at_a += a[d];
        at_b += b[d];
        if (++index[d] < shape[d]) break;
        at_a -= a[d] * shape[d];
        at_b -= b[d] * shape[d];
        index[d] = 0;
      }
    }
  }
};

/// Both buffers have the same shape. Dimensions with stride 0 on both sides are visited once.
Runs dense_runs(const Buffer& a, const Buffer& b);

}  // namespace planish::rt
