#pragma once
// What attention of many queries in 16 bits has in common, whatever multiplies: which rows a block has at a turn, the
// online softmax of the rows that a thread has a part of, and how results leave. P is a policy and F functors (see
// sm90/attention.cuh), L a layout, with
//   int rows, blocks, tiles              queries of a block; blocks of a unit; in all
//   int columns, exchange_pitch          of sums; of a row in what a warp hands its lanes, floats
// Sequences (P::packed) lie one after the other in the rows of a unit, P::sequences of them. A block's rows are one
// sequence's, of which the keys are counted from its first one. What is before and behind them sees no key.
// A thread's fragment of 16 rows has of each 8 keys, or columns, four: two neighbours of row lane / 4, and of the row 8
// further. Whoever includes it has included a file of instructions: exp2_fast(), pack_bf16() and pack_f16() are of
// that.

#include "softmax.cuh"
#include "types.cuh"

/// Tiles of keys from `begin` to `end`, of which those from `free_begin` to `free_end` need no mask. `last`: of keys in
/// pages the last one that counts.
struct AttentionSpan {
  int begin, end, free_begin, free_end;
  int last = 0;
};

/// What a policy need not have: keys of a page, where keys lie in pages; how many numbers of a block's rows say which
/// keys count, and how many of each row.
template <typename P>
PL_DEVICE constexpr auto attention_page(int) -> decltype(P::page + 0) {
  return P::page;
}
template <typename P>
PL_DEVICE constexpr int attention_page(long) {
  return 0;
}
template <typename P>
PL_DEVICE constexpr auto attention_bounds(int) -> decltype(P::bounds + 0) {
  return P::bounds;
}
template <typename P>
PL_DEVICE constexpr int attention_bounds(long) {
  return 0;
}

template <typename P>
PL_DEVICE constexpr auto attention_row_bounds(int) -> decltype(P::row_bounds + 0) {
  return P::row_bounds;
}
template <typename P>
PL_DEVICE constexpr int attention_row_bounds(long) {
  return 0;
}

/// Of a block's rows, and of the two that a thread has a part of.
template <int count, int of_rows>
struct AttentionBounds {
  int bounds[count], own[2][of_rows + 1];
};
template <>
struct AttentionBounds<0, 0> {};

/// The sequence's number, where keys of packed sequences lie in pages.
template <bool in_pages>
struct AttentionSequence {
  int sequence;
};
template <>
struct AttentionSequence<false> {};
template <typename P>
PL_DEVICE constexpr bool attention_tables() {
  return P::packed && attention_page<P>(0) > 0;
}

/// What a tile is: rows from `row` on, of a sequence that ends at `end` and has so many keys.
template <typename P>
struct AttentionPart : AttentionBounds<attention_bounds<P>(0), attention_row_bounds<P>(0)>,
                       AttentionSequence<attention_tables<P>()> {
  int unit, row, end, first_key, keys;

  PL_DEVICE int rows_end() const { return P::packed ? end : P::rows; }
  /// The place of a key of the tile among all.
  PL_DEVICE int key(int tile) const { return tile * P::tile_keys + (P::packed ? first_key : 0); }
  /// A row's place, as places of keys are counted: the last row is at the last key.
  PL_DEVICE int place(int own) const { return P::packed ? own + keys - end : own; }
};

/// One warp: by sequence, how many blocks of rows are before it; last, how many there are. The rows before the first
/// sequence count as its own.
template <typename P, typename L, typename F>
PL_DEVICE void attention_count(const F& f, int* before) {
  const int lane = (int)threadIdx.x % 32;
  int all = 0;
  for (int first = 0; first <= P::sequences; first += 32) {
    const int n = min(first + lane, P::sequences);
    const int rows = f.rows_end(n) - f.rows_begin(n), own = rows > 0 ? (rows + L::rows - 1) / L::rows : 0;
    int reached = own;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const int others = __shfl_up_sync(~0u, reached, by);
      if (lane >= by) reached += others;
    }
    if (first + lane <= P::sequences) before[n] = all + reached - own;
    all += __shfl_sync(~0u, reached, min(31, P::sequences - first));
  }
  if (lane == 0) before[P::sequences + 1] = all;
}

/// The largest power of two that is not larger.
PL_DEVICE constexpr int attention_first_step(int count) {
  int step = 1;
  while (2 * step <= count) step *= 2;
  return step;
}

/// The sequence of a unit's block, and its rows: `before` is what attention_count() has left.
template <typename P, typename L, typename F>
PL_DEVICE void attention_find(const F& f, const int* before, int block, AttentionPart<P>& part) {
  int n = 0;
#pragma unroll
  for (int step = attention_first_step(P::sequences); step > 0; step /= 2) {
    if (n + step <= P::sequences && before[n + step] <= block) n += step;
  }
  part.row = f.rows_begin(n) + (block - before[n]) * L::rows;
  part.end = f.rows_end(n);
  part.first_key = n < P::sequences ? f.keys_begin(n) : 0;
  part.keys = n < P::sequences ? max(f.keys_end(n) - part.first_key, 0) : 0;
  if constexpr (attention_tables<P>()) part.sequence = n;
}

/// The tile that is a block's at a turn: blocks go through sections in one order and then in the other, so that each
/// has as many long ones as any.
PL_DEVICE int attention_tile(int turn) {
  const int grid = (int)gridDim.x, block = (int)blockIdx.x;
  return turn * grid + (turn % 2 != 0 ? grid - 1 - block : block);
}

/// What a tile is; false behind the last one.
template <typename P, typename L, typename F>
PL_DEVICE bool attention_turn(const F& f, const int* before, int tile, AttentionPart<P>& part) {
  int blocks = L::blocks;
  if constexpr (P::packed) blocks = before[P::sequences + 1];
  if (tile >= (P::packed ? blocks * P::units : L::tiles)) return false;
  const int each = P::section * blocks;
  const int section = tile / each, within = tile % each;
  const int units = min(P::section, P::units - section * P::section);
  part.unit = section * P::section + within % units;
  const int own = blocks - 1 - within / units;
  if constexpr (P::packed)
    attention_find<P, L>(f, before, own, part);
  else
    part.row = own * L::rows;
  if constexpr (attention_bounds<P>(0) > 0)
    f.bound(part.unit, part.row, min(part.row + L::rows, P::rows) - 1, part.bounds);
  return true;
}

template <typename P, typename L, typename F>
PL_DEVICE AttentionSpan attention_span(const F& f, const AttentionPart<P>& part) {
  const int last = min(part.row + L::rows, part.rows_end()) - 1;
  if constexpr (P::packed)
    return f.tiles(part.place(part.row), part.place(last), part.keys);
  else if constexpr (attention_bounds<P>(0) > 0)
    return f.tiles(part.row, last, part.bounds);
  else
    return f.tiles(part.row, last);
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
    base[h] = rows.top[h] == no_score() ? 0.0f : rows.top[h];
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
  // The difference first: of scores in the thousands a product with `scale` is off by so much that the largest
  // exponential is no longer 1, and rounded to 16 bits it differs from what is summed here.
#pragma unroll
  for (int i = 0; i < count; i += 4) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[i + e] = exp2_fast((s[i + e] - base[e / 2]) * P::scale);
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
                               const AttentionSpan& span, const AttentionPart<P>& part, int row0, int row1) {
  if (P::plain && !P::masks) return;
  const int first = tile * P::tile_keys + (int)threadIdx.x % 4 * 2;
  if (P::masks && (tile < span.free_begin || tile >= span.free_end)) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int row = i % 4 < 2 ? row0 : row1, key = first + i / 4 * 8 + i % 2;
      bool visible;
      if constexpr (P::packed)
        visible = f.visible(part.place(row), key, part.keys);
      else if constexpr (attention_bounds<P>(0) > 0)
        visible = f.visible(row, key, part.bounds, part.own[i % 4 / 2]);
      else
        visible = f.visible(row, key);
      if (!visible)
        s[i] = no_score();
      else if (!P::plain)
        s[i] = f.score(part.unit, row, key, s[i], ahead, i);
    }
  } else if (!P::plain) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      s[i] = f.score(part.unit, i % 4 < 2 ? row0 : row1, first + i / 4 * 8 + i % 2, s[i], ahead, i);
  }
}

/// Sums of 16 rows from own_row on, divided, go through a warp's shared memory to the epilogue, 8 rows at a time.
template <typename P, typename L, typename F, int count>
PL_DEVICE void attention_store(const F& f, const float (&o)[count], AttentionRows& rows, const AttentionPart<P>& part,
                               int own_row, int row0, int row1, float* exchange) {
  const int unit = part.unit;
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
  for (int begin = 0; begin < L::columns; begin += P::exchange) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      __syncwarp();
#pragma unroll
      for (int j = begin; j < begin + P::exchange && j < L::columns; j += 8) {
        mine[j - begin] = o[j / 2 + h * 2] * factor[h];
        mine[j - begin + 1] = o[j / 2 + h * 2 + 1] * factor[h];
      }
      __syncwarp();
      const int row = own_row + h * 8, valid = min(part.rows_end() - row, 8);
      if (valid > 0) f.template store<L::exchange_pitch, P::exchange>(unit, row, valid, begin, lane, exchange);
    }
  }
  __syncwarp();
}
