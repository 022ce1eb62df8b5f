#pragma once
// What warps fold of results while they store them: sums along rows over runs of neighbouring columns, or means and
// squared distances from them, as a norm behind a product needs them.

#include "types.cuh"

/// Nothing is folded.
struct ProductNoFolds {
  static constexpr int count = 0, run = 1;
};

/// `values` of each result, over runs that begin at multiples of `run_columns`, a multiple of 8. Of each 8 columns a
/// thread has two of row lane / 4, and of the row 8 further. Where a bit of `centred` is set, what remains of its value
/// is the mean, the sum of squared distances from it and how many there are; else the sum.
template <int values, int run_columns, unsigned centred>
class ProductFolds {
 public:
  static constexpr int count = values, run = run_columns;

  PL_DEVICE ProductFolds() { clear(); }

  /// Two neighbours of the row `h`.
  PL_DEVICE void take(int h, const float (&more)[values][2]) {
#pragma unroll
    for (int i = 0; i < values; ++i) {
      // Distances are from what the row's first 8 elements have on average, which is at most an eighth of all squared
      // distances, and as a square, away from the mean: little enough that the difference of squares keeps its digits.
      if ((centred >> i & 1) && elements[h] == 0) {
        float first = more[i][0] + more[i][1];
        first += __shfl_xor_sync(~0u, first, 1);
        first += __shfl_xor_sync(~0u, first, 2);
        about[h][i] = 0.125f * first;
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float distance = more[i][e] - about[h][i];
        sum[h][i] += distance;
        if (centred >> i & 1) squares[h][i] = fmaf(distance, distance, squares[h][i]);
      }
    }
    elements[h] += 2;
  }

  /// The four threads of a row put theirs together, and one of them writes, where the row is `there`, what remains to
  /// where(): a run ends.
  template <typename Where>
  PL_DEVICE void leave(int h, bool there, const Where& where) {
    const bool writes = there && (int)threadIdx.x % 4 == 0;
    float* const to = writes ? where() : nullptr;
    int state = 0;
#pragma unroll
    for (int i = 0; i < values; ++i) {
      float total = sum[h][i], apart = squares[h][i];
#pragma unroll
      for (int lanes = 1; lanes < 4; lanes *= 2) {
        total += __shfl_xor_sync(~0u, total, lanes);
        if (centred >> i & 1) apart += __shfl_xor_sync(~0u, apart, lanes);
      }
      if (centred >> i & 1) {
        const float n = (float)(4 * elements[h]), mean = total / n, squared = apart - total * mean;
        // Of what is no number nothing is made.
        if (writes) to[state] = about[h][i] + mean, to[state + 1] = squared < 0.0f ? 0.0f : squared, to[state + 2] = n;
        state += 3;
      } else {
        if (writes) to[state] = total;
        ++state;
      }
      sum[h][i] = squares[h][i] = about[h][i] = 0.0f;
    }
    elements[h] = 0;
  }

 private:
  PL_DEVICE void clear() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int i = 0; i < values; ++i) sum[h][i] = squares[h][i] = about[h][i] = 0.0f;
      elements[h] = 0;
    }
  }

  float sum[2][values], squares[2][values], about[2][values];
  int elements[2];
};
