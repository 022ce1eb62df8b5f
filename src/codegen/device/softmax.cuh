#pragma once
// Softmaxes of scores that come tile by tile.

#include "types.cuh"

/// The score of a key that does not count.
PL_DEVICE float no_score() {
  return __int_as_float(0xff800000);
}

/// A score of a mask that adds the least number of a type: times log2(e) it would be infinite.
PL_DEVICE bool is_vast(float score) {
  return score < -2e38f && score != no_score();
}

/// What sums of exponentials of x - `top`, the largest score, are times to be those of x - `shift`, as the definition
/// has them. Without a key that counts they are zeros, whatever a finite shift is.
PL_DEVICE float softmax_rebase(float top, float shift) {
  const bool none = top == no_score();
  const float own = none ? 0.0f : top;
  return own == shift || (none && fabsf(shift) < -no_score()) ? 1.0f : expf(own - shift);
}
