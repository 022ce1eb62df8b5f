#pragma once
// What attention of many queries in 16 bits has in common, whatever multiplies: which rows a block has at a turn, the
// online softmax of the rows that a thread has a part of, and how results leave. P is a policy and F functors (see
// sm90/attention.cuh), L a layout, with
//   int rows, blocks, tiles              queries of a block; blocks of a unit; in all
//   int columns, exchange_pitch          of sums; of a row in what a warp hands its lanes, floats
// A thread's fragment of 16 rows has of each 8 keys, or columns, four: two neighbours of row lane / 4, and of the row 8
// further. Whoever includes it has included a file of instructions: exp2_fast(), pack_bf16() and pack_f16() are of
// that.

#include "softmax.cuh"
#include "types.cuh"

/// Tiles of keys from `begin` to `end`, of which those from `free_begin` to `free_end` need no mask.
struct AttentionSpan {
  int begin, end, free_begin, free_end;
};

/// What a block has at a turn: blocks go through sections in one order and then in the other, so that each has as many
/// long ones as any.
template <typename P, typename L>
PL_DEVICE bool attention_turn(int turn, int& unit, int& row) {
  const int grid = (int)gridDim.x, block = (int)blockIdx.x;
  const int tile = turn * grid + (turn % 2 != 0 ? grid - 1 - block : block);
  if (tile >= L::tiles) return false;
  constexpr int each = P::section * L::blocks;
  const int section = tile / each, within = tile % each;
  const int units = min(P::section, P::units - section * P::section);
  unit = section * P::section + within % units;
  row = (L::blocks - 1 - within / units) * L::rows;
  return true;
}

template <typename P, typename L, typename F>
PL_DEVICE AttentionSpan attention_span(const F& f, int row) {
  return f.tiles(row, min(row + L::rows, P::rows) - 1);
}

/// The state of a thread's two rows, 8 apart. `top` is what exponentials are taken from, in the units of scores in
/// registers: the largest score, or one whose exponential is at most 2^slack times smaller.
struct AttentionRows {
  float top[2], sum[2], less[2];
};

/// Scores become exponentials. `less` is what earlier sums have to be multiplied by; true where some lane's is not 1.
template <typename P, int count>
PL_DEVICE bool attention_soften(float (&s)[count], AttentionRows& rows) {
  float now[2] = {fmaxf(s[0], s[1]), fmaxf(s[2], s[3])};
#pragma unroll
  for (int i = 4; i < count; i += 4) {
    now[0] = fmaxf(now[0], fmaxf(s[i], s[i + 1]));
    now[1] = fmaxf(now[1], fmaxf(s[i + 2], s[i + 3]));
  }
  float base[2];
  bool any = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 1));
    now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 2));
    const float before = rows.top[h];
    const bool grows = (now[h] - before) * P::scale > P::slack;
    rows.top[h] = grows ? now[h] : before;
    rows.less[h] = grows ? exp2_fast((before - now[h]) * P::scale) : 1.0f;
    any = any | grows;
    // A row of which no key counts so far.
    base[h] = rows.top[h] == no_score() ? 0.0f : rows.top[h] * P::scale;
  }
  if constexpr (!P::plain) {
    // A row that a mask covers whole.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (!is_vast(rows.top[h])) continue;
      base[h] = 0.0f;
#pragma unroll
      for (int i = 2 * h; i < count; i += 4) s[i] -= rows.top[h], s[i + 1] -= rows.top[h];
    }
  }
  float sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < count; i += 4) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[i + e] = exp2_fast(fmaf(s[i + e], P::scale, -base[e / 2]));
    sum[0] += s[i] + s[i + 1];
    sum[1] += s[i + 2] + s[i + 3];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) rows.sum[h] = fmaf(rows.sum[h], rows.less[h], sum[h]);
  return __any_sync(~0u, any);
}

/// Exponentials as the first operand of 16-bit numbers: the accumulator's order is the operand's.
template <bool bf16, int count>
PL_DEVICE void attention_round(const float (&s)[count], u32 (&p)[count / 2]) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i)
    p[i] = bf16 ? pack_bf16(s[2 * i], s[2 * i + 1]) : pack_f16(s[2 * i], s[2 * i + 1]);
}

/// Products become scores, of the two rows that a thread has a part of.
template <typename P, typename F, int count>
PL_DEVICE void attention_score(const F& f, float (&s)[count], const typename F::Ahead& ahead, int tile,
                               const AttentionSpan& span, int unit, int row0, int row1) {
  if (P::plain && !P::masks) return;
  const int first = tile * P::tile_keys + (int)threadIdx.x % 4 * 2;
  if (P::masks && (tile < span.free_begin || tile >= span.free_end)) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int row = i % 4 < 2 ? row0 : row1, key = first + i / 4 * 8 + i % 2;
      if (!f.visible(row, key))
        s[i] = no_score();
      else if (!P::plain)
        s[i] = f.score(unit, row, key, s[i], ahead, i);
    }
  } else if (!P::plain) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      s[i] = f.score(unit, i % 4 < 2 ? row0 : row1, first + i / 4 * 8 + i % 2, s[i], ahead, i);
  }
}

/// Sums of 16 rows from own_row on, divided, go through a warp's shared memory to the epilogue, 8 rows at a time.
template <typename P, typename L, typename F, int count>
PL_DEVICE void attention_store(const F& f, const float (&o)[count], AttentionRows& rows, int unit, int own_row,
                               int row0, int row1, float* exchange) {
  const int lane = (int)threadIdx.x % 32;
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    rows.sum[h] += __shfl_xor_sync(~0u, rows.sum[h], 1);
    rows.sum[h] += __shfl_xor_sync(~0u, rows.sum[h], 2);
    const int row = h == 0 ? row0 : row1;
    const float top = rows.top[h] * P::natural, shift = f.shift(unit, row, top);
    const float by = softmax_rebase(top, shift);
    factor[h] = by / f.divisor(unit, row, top, rows.sum[h] * by);
  }
  float* const mine = exchange + lane / 4 * L::exchange_pitch + lane % 4 * 2;
#pragma unroll
  for (int part = 0; part < L::columns; part += P::exchange) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      __syncwarp();
#pragma unroll
      for (int j = part; j < part + P::exchange && j < L::columns; j += 8) {
        mine[j - part] = o[j / 2 + h * 2] * factor[h];
        mine[j - part + 1] = o[j / 2 + h * 2 + 1] * factor[h];
      }
      __syncwarp();
      const int row = own_row + h * 8, valid = min(P::rows - row, 8);
      if (valid > 0) f.template store<L::exchange_pitch, P::exchange>(unit, row, valid, part, lane, exchange);
    }
  }
  __syncwarp();
}
