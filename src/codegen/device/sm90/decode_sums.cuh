#pragma once
// Attention of a few queries: the sums of warps are put together in shared memory, those of blocks in global memory.
// The policy is that of sm90/decode_attention.cuh.

#include "sm90/decode_work.cuh"

/// Who puts sums together: all warps of the block, or one.
template <class P>
struct DecodeAll {
  static constexpr int threads = P::warps * 32;
  static PL_DEVICE int index() { return threadIdx.x; }
  static PL_DEVICE void meet() { decode_barrier<P>(); }
};
struct DecodeOne {
  static constexpr int threads = 32;
  static PL_DEVICE int index() { return threadIdx.x % 32; }
  static PL_DEVICE void meet() { __syncwarp(); }
};

/// A row's column: sums relative to `top` and their total become the result.
template <class P>
PL_DEVICE void decode_store(const typename P::Args& args, int unit, int row, int column, float top, float total,
                            float sum) {
  constexpr float log2e = 1.44269504088896340736f;
  const float maximum = top / log2e, shift = P::shift(args, unit, row, maximum), scale = decode_scale(top, shift);
  P::store(args, unit, row, column, sum * scale / P::divisor(args, unit, row, maximum, total * scale));
}

/// What the warps left, to the result, or to `own` where other blocks share the unit: DecodeLayout::sums floats.
template <class P, class W, class Who>
PL_DEVICE void decode_sum_warps(const typename P::Args& args, int unit, const float* left, bool shared, float* own) {
  using L = DecodeLayout<P, W>;
  constexpr int tops = P::rows * P::columns, totals = tops + P::rows;
  for (int e = Who::index(); e < tops / 2; e += Who::threads) {
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
    if (!shared) {
      decode_store<P>(args, unit, row, column, top, total, sum.x);
      decode_store<P>(args, unit, row, column + 1, top, total, sum.y);
    } else {
      ((float2*)own)[e] = sum;
      if (column == 0) own[tops + row] = top, own[totals + row] = total;
    }
  }
}

/// Sums of `count` blocks to the result, in their order, whoever is last. `all`: of which each block's lie at
/// at(block) times DecodeLayout::sums. `shares`: DecodeLayout::shares floats of shared memory.
template <class P, class W, class Who, class At>
PL_DEVICE void decode_sum_blocks(const typename P::Args& args, int unit, const float* all, int count, const At& at,
                                 float* shares) {
  using L = DecodeLayout<P, W>;
  constexpr int tops = P::rows * P::columns, totals = tops + P::rows, pairs = P::rows * P::columns / 2;
  constexpr int items = (pairs + Who::threads - 1) / Who::threads;
  const int warp = Who::index() / 32, lane = Who::index() % 32;
  const auto of = [&](int s) { return all + at(s) * L::sums; };
  const auto pair = [&](int s, int i) {
    return __ldcg((const float2*)(of(s) + 2 * min(i * Who::threads + Who::index(), pairs - 1)));
  };
  // The first sums are on their way while the shares are computed, where they are few.
  constexpr int held = items > 1 ? 0 : L::streams ? 2 : L::sharing <= 16 ? L::sharing : 0;
  float2 first_sums[held > 0 ? held : 1];
#pragma unroll
  for (int s = 0; s < held; ++s) first_sums[s] = pair(s, 0);
  // Of each row: what each block's sums are worth, then the total.
  for (int row = warp; row < P::rows; row += Who::threads / 32) {
    const auto top_of = [&](int s) { return __ldcg(of(s) + tops + row); };
    const float own_top = lane < count ? top_of(lane) : no_score();
    const float own_total = lane < count ? __ldcg(of(lane) + totals + row) : 0.0f;
    float top = own_top, total = 0.0f;
    for (int s = lane + 32; s < count; s += 32) top = fmaxf(top, top_of(s));
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, apart));
    for (int s = lane; s < count; s += 32) {
      const float share = decode_share(s < 32 ? own_top : top_of(s), top);
      shares[row * L::sharing + s] = share;
      total = fmaf(s < 32 ? own_total : __ldcg(of(s) + totals + row), share, total);
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) total += __shfl_xor_sync(0xffffffffu, total, apart);
    constexpr float log2e = 1.44269504088896340736f;
    const float maximum = top / log2e, shift = P::shift(args, unit, row, maximum), scale = decode_scale(top, shift);
    if (lane == 0) shares[P::rows * L::sharing + row] = scale / P::divisor(args, unit, row, maximum, total * scale);
  }
  Who::meet();
  float2 sums[items];
#pragma unroll
  for (int i = 0; i < items; ++i) sums[i] = make_float2(0.0f, 0.0f);
  const auto row_of = [&](int i) { return 2 * min(i * Who::threads + Who::index(), pairs - 1) / P::columns; };
  const auto add = [&](int s, int i, const float2& one) {
    const float share = shares[row_of(i) * L::sharing + s];
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
    const int e = i * Who::threads + Who::index(), row = row_of(i), column = 2 * e % P::columns;
    if (e >= pairs) continue;
    const float factor = shares[P::rows * L::sharing + row];
    P::store(args, unit, row, column, sums[i].x * factor);
    P::store(args, unit, row, column + 1, sums[i].y * factor);
  }
}

/// What this block's warps left of a unit, to the result or to other blocks' sums; the last of those that share the
/// unit puts them all together. `partial`: DecodeLayout::sums floats for each place. `arrived`: a zero for each unit.
template <class P, class W, class Who>
PL_DEVICE void decode_sum(const typename P::Args& args, const DecodeWork<P, W>& work, int unit, float* partial,
                          u32* arrived) {
  using L = DecodeLayout<P, W>;
  float* const left = (float*)(work.shared + L::left_at);
  const int count = work.sharing(unit);
  if constexpr (L::sharing == 1) {
    decode_sum_warps<P, W, Who>(args, unit, left, false, nullptr);
  } else {
    const auto at = [&](int split) { return (long long)work.place(unit, split); };
    decode_sum_warps<P, W, Who>(args, unit, left, count > 1, partial + at(work.split_of(unit)) * L::sums);
    if (count == 1) return;
    Who::meet();
    u32* const order = (u32*)(left + L::shares);
    if (Who::index() == 0) *order = count_in(arrived + unit);
    Who::meet();
    if (*order != count - 1) return;
    if (Who::index() == 0) arrived[unit] = 0;  // for whoever launches it again
    decode_sum_blocks<P, W, Who>(args, unit, partial, count, at, left);
  }
}

/// A warp's own, of the block's unit number `turn`. It waits for no other warp, but for whoever still adds up the unit
/// before: the warp that comes last takes up all sums.
template <class P, class W, class S>
PL_DEVICE void decode_sum_alone(const typename P::Args& args, const DecodeWork<P, W>& work, int unit, u32 turn, S& mine,
                                float* partial, u32* arrived) {
  using L = DecodeLayout<P, W>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  while (shared_acquire(work.taken()) != turn) {
  }
  mine.leave((float*)(work.shared + L::left_at) + warp * L::left, lane / 4, lane % 4);
  __syncwarp();
  u32 before = 0;
  if (lane == 0) before = count_in_block(work.come());
  before = __shfl_sync(0xffffffffu, before, 0);
  if (before != P::warps * (turn + 1) - 1) return;
  __syncwarp();
  decode_sum<P, W, DecodeOne>(args, work, unit, partial, arrived);
  __syncwarp();
  if (lane == 0) shared_release(work.taken(), turn + 1);
}
