#pragma once
// Tiles of 16-bit operands in shared memory, as threads write them 16 bytes at a time, and as warps load fragments for
// mma.sync from them.

#include "sm80/ptx.cuh"
#include "types.cuh"

/// Where 16 bytes of an operand's tile lie: of a row, at 8 k; or across, of a k, at 8 rows. The eight that a warp reads
/// at once meet in no bank, nor do those that it writes.
template <bool across, int depth>
PL_DEVICE u32 fragment_place(int row, int k) {
  if constexpr (across) {
    return row / 64 * (depth * 128) + k * 128 + (row / 8 % 8 ^ k % 8) * 16;
  } else if constexpr (depth == 64) {
    return row * 128 + (k / 8 ^ row % 8) * 16;
  } else {
    return row * 64 + (k / 8 ^ row / 2 % 4) * 16;
  }
}

/// Fragments of one operand that a warp has: of the first, whose 16 rows are four matrices one below the other, or of
/// the second, whose matrices of one k lie beside each other.
template <bool first, bool across, int depth>
struct OperandFragments {
  u32 own;
  PL_DEVICE explicit OperandFragments(int row) {
    const int lane = (int)threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
    const int more = first ? low : high, k = first ? high : low;
    own = across ? fragment_place<true, depth>(row + more, k + lane % 8)
                 : fragment_place<false, depth>(row + more + lane % 8, k);
  }
  /// Of 16 rows from 16 · i of the warp's on, and 16 k.
  PL_DEVICE void load(u32 (&r)[4], u32 tile, int i, int k) const {
    if constexpr (across) {
      load_matrices_transposed(r, ((tile + own) ^ (i % 4 * 32)) + i / 4 * (depth * 128) + k * 128);
    } else {
      load_matrices(r, ((tile + own) ^ (k * 2)) + i * (16 * depth * 2));
    }
  }
};

/// Four sums, of a fragment that is an array.
template <bool bf16>
PL_DEVICE void mma_into(float* sums, const u32 (&a)[4], u32 b0, u32 b1) {
  float four[4] = {sums[0], sums[1], sums[2], sums[3]};
  mma_16x8x16<bf16>(four, a[0], a[1], a[2], a[3], b0, b1);
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] = four[i];
}
