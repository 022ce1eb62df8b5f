#pragma once
// Attention of a few queries: the sums of warps are put together in shared memory, those of blocks in global memory.
// The policy is that of sm90/decode_attention.cuh.

#include "sm90/decode_share.cuh"

/// A row's column: sums relative to `top` and their total become the result.
template <class P>
PL_DEVICE void decode_store(const typename P::Args& args, int unit, int row, int column, float top, float total,
                            float sum) {
  const float shift = P::shift(args, unit, row, top), scale = decode_scale(top, shift);
  P::store(args, unit, row, column, sum * scale / P::divisor(args, unit, row, top, total * scale));
}

/// What the warps left, to the result, or to `own` where other blocks share the unit: DecodeLayout::sums floats.
template <class P, class W>
PL_DEVICE void decode_sum_warps(const typename P::Args& args, int unit, const float* left, float* own) {
  using L = DecodeLayout<P, W>;
  constexpr int tops = P::rows * P::columns, totals = tops + P::rows;
  for (int e = threadIdx.x; e < tops / 2; e += L::threads) {
    const int row = 2 * e / P::columns, column = 2 * e % P::columns;
    float top = no_score(), total = 0.0f;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < P::warps; ++w) top = fmaxf(top, left[w * L::left + L::left_tops + row]);
#pragma unroll
    for (int w = 0; w < P::warps; ++w) {
      const float share = decode_share(left[w * L::left + L::left_tops + row], top);
      const float2 one = *(const float2*)(left + w * L::left + L::left_place(row, column));
      total = fmaf(left[w * L::left + L::left_totals + row], share, total);
      sum.x = fmaf(one.x, share, sum.x), sum.y = fmaf(one.y, share, sum.y);
    }
    if constexpr (P::splits == 1) {
      decode_store<P>(args, unit, row, column, top, total, sum.x);
      decode_store<P>(args, unit, row, column + 1, top, total, sum.y);
    } else {
      ((float2*)own)[e] = sum;
      if (column == 0) own[tops + row] = top, own[totals + row] = total;
    }
  }
}

/// Sums of all blocks that share a unit to the result, in their order, whoever is last. `shares`: DecodeLayout::shares
/// floats of shared memory.
template <class P, class W>
PL_DEVICE void decode_sum_blocks(const typename P::Args& args, int unit, const float* all, float* shares) {
  using L = DecodeLayout<P, W>;
  constexpr int count = P::splits;
  constexpr int tops = P::rows * P::columns, totals = tops + P::rows, pairs = P::rows * P::columns / 2;
  constexpr int items = (pairs + L::threads - 1) / L::threads;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const auto of = [&](int s) { return all + s * L::sums; };
  const auto pair = [&](int s, int i) {
    return __ldcg((const float2*)(of(s) + 2 * min(i * L::threads + (int)threadIdx.x, pairs - 1)));
  };
  // The first sums are on their way while the shares are computed, where they are few.
  constexpr int held = items > 1 ? 0 : count <= 16 ? count : 0;
  float2 first_sums[held > 0 ? held : 1];
#pragma unroll
  for (int s = 0; s < held; ++s) first_sums[s] = pair(s, 0);
  // Of each row: what each block's sums are worth, then the total.
  for (int row = warp; row < P::rows; row += L::threads / 32) {
    const auto top_of = [&](int s) { return __ldcg(of(s) + tops + row); };
    const float own_top = lane < count ? top_of(lane) : no_score();
    const float own_total = lane < count ? __ldcg(of(lane) + totals + row) : 0.0f;
    float top = own_top, total = 0.0f;
    for (int s = lane + 32; s < count; s += 32) top = fmaxf(top, top_of(s));
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, apart));
    for (int s = lane; s < count; s += 32) {
      const float share = decode_share(s < 32 ? own_top : top_of(s), top);
      shares[row * count + s] = share;
      total = fmaf(s < 32 ? own_total : __ldcg(of(s) + totals + row), share, total);
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) total += __shfl_xor_sync(0xffffffffu, total, apart);
    const float shift = P::shift(args, unit, row, top), scale = decode_scale(top, shift);
    if (lane == 0) shares[P::rows * count + row] = scale / P::divisor(args, unit, row, top, total * scale);
  }
  decode_barrier<P>();
  float2 sums[items];
#pragma unroll
  for (int i = 0; i < items; ++i) sums[i] = make_float2(0.0f, 0.0f);
  const auto row_of = [&](int i) { return 2 * min(i * L::threads + (int)threadIdx.x, pairs - 1) / P::columns; };
  const auto add = [&](int s, int i, const float2& one) {
    const float share = shares[row_of(i) * count + s];
    sums[i].x = fmaf(one.x, share, sums[i].x), sums[i].y = fmaf(one.y, share, sums[i].y);
  };
#pragma unroll
  for (int s = 0; s < held; ++s) add(s, 0, first_sums[s]);
#pragma unroll(items > 8 ? 1 : 16 / items)
  for (int s = held; s < count; ++s) {
#pragma unroll
    for (int i = 0; i < items; ++i) add(s, i, pair(s, i));
  }
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const int e = i * L::threads + (int)threadIdx.x, row = row_of(i), column = 2 * e % P::columns;
    if (e >= pairs) continue;
    const float factor = shares[P::rows * count + row];
    P::store(args, unit, row, column, sums[i].x * factor);
    P::store(args, unit, row, column + 1, sums[i].y * factor);
  }
}

/// What this block's warps left, to the result or to other blocks' sums; the last of those that share the unit puts
/// them all together. `partial`: DecodeLayout::sums floats for each block. `arrived`: a zero for each unit.
template <class P, class W>
PL_DEVICE void decode_sum(const typename P::Args& args, const DecodeShare<P, W>& share, float* partial, u32* arrived) {
  using L = DecodeLayout<P, W>;
  float* const left = (float*)share.shared;
  float* const all = partial + (long long)share.unit * P::splits * L::sums;
  decode_sum_warps<P, W>(args, share.unit, left, all + share.split * L::sums);
  if constexpr (P::splits > 1) {
    decode_barrier<P>();
    u32* const order = (u32*)(left + L::shares);
    if (threadIdx.x == 0) *order = count_in(arrived + share.unit);
    decode_barrier<P>();
    if (*order != P::splits - 1) return;
    if (threadIdx.x == 0) arrived[share.unit] = 0;  // for whoever launches it again
    decode_sum_blocks<P, W>(args, share.unit, all, left);
  }
}
