#pragma once
// Attention of many queries in 16 bits by mma.sync: out = epilogue(softmax(score(q · kᵀ)) · v), a block's rows of
// queries at a time, by FlashAttention's online softmax. All threads bring tiles of keys and of values by cp.async from
// where they lie, into two rings; a warp has some rows of queries with all keys. Scores and sums stay in fp32
// registers, weights are rounded once to be the first operand of the second product, and results once where they are
// stored.
//
// Policy (all constexpr): as sm90/attention.cuh has it, of features, columns, rows, keys, units, tile_keys (at most
// 128), stages, section, exchange, bf16, plain, masks, scale, natural and slack; and
//   int warps, row_blocks        of a block; 16 rows of queries each, that a warp has
//   int resident                 blocks of a multiprocessor
//   long long query_stride, key_stride, value_stride     elements from a row to the next
//
// Functors F: tiles(), visible(), Ahead, ask(), score(), shift(), divisor() and store() as sm90/attention.cuh has them,
// and
//   queries(unit), keys(unit), values(unit)              where their first elements lie

#include "sm80/fragments.cuh"
#include "sm80/ptx.cuh"
// Behind the instructions, which it calls by name.
#include "attention_rows.cuh"

/// Where things lie in shared memory, in bytes from a multiple of 128.
template <typename P>
struct MmaAttentionLayout {
  static constexpr int rows = 16 * P::row_blocks * P::warps, threads = 32 * P::warps;
  static constexpr int feature_steps = (P::features + 15) / 16;  // of 16
  static constexpr int columns = (P::columns + 15) / 16 * 16;
  static constexpr int feature_lines = (P::features + 63) / 64, column_lines = (P::columns + 63) / 64;  // of 128 bytes
  static constexpr int query_bytes = feature_lines * rows * 128;
  static constexpr int key_bytes = feature_lines * P::tile_keys * 128;
  static constexpr int value_bytes = column_lines * P::tile_keys * 128;
  static constexpr int keys_at = query_bytes;
  static constexpr int values_at = keys_at + P::stages * key_bytes;
  static constexpr int exchange_at = values_at + P::stages * value_bytes;
  static constexpr int exchange_pitch = P::exchange + 8;
  static constexpr int bytes = exchange_at + P::warps * 8 * exchange_pitch * 4;
  static constexpr int blocks = (P::rows + rows - 1) / rows;  // of a unit
  static constexpr int tiles = blocks * P::units;
  /// Few enough that queries stay in registers.
  static constexpr bool keeps_queries = P::row_blocks * feature_steps <= 8;
  static_assert(P::tile_keys % 16 == 0 && P::tile_keys <= 128 && P::stages >= 1);
};

/// All threads: `count` rows from `first` on, of `width` elements, as lines of 64 of them one behind the other. Rows
/// from `limit` on, and what 16 elements have beyond the width, are zeros.
template <int count, int width, int threads, long long stride>
PL_DEVICE void attention_bring(u32 to, const u16* from, int first, int limit) {
  constexpr int chunks = (width + 15) / 16 * 2, all = count * chunks;
#pragma unroll
  for (int i = 0; i < (all + threads - 1) / threads; ++i) {
    // Rows of as many pieces as divide the threads are told by the thread alone.
    constexpr bool even = threads % chunks == 0;
    const int at = (int)threadIdx.x + i * threads;
    const int row = even ? (int)threadIdx.x / chunks + i * (threads / chunks) : at / chunks;
    const int chunk = even ? (int)threadIdx.x % chunks : at % chunks;
    if (all % threads != 0 && at >= all) break;
    const int bytes = width % 8 == 0 && width % 16 == 0 ? 16 : min(max((width - chunk * 8) * 2, 0), 16);
    const bool there = first + row < limit;
    cp_async_16(to + chunk / 8 * (count * 128) + fragment_place<false, 64>(row, chunk % 8 * 8),
                from + (there ? (first + row) * stride + (chunk * 8 < width ? chunk * 8 : 0) : 0), there ? bytes : 0);
  }
}

template <typename P, typename F>
class MmaAttention {
  using L = MmaAttentionLayout<P>;

 public:
  PL_DEVICE MmaAttention(const F& functors, u32 shared)
      : f(functors),
        base(shared),
        warp((int)threadIdx.x / 32),
        of_queries(warp * 16 * P::row_blocks),
        of_keys(0),
        of_values(0) {}

  PL_DEVICE void run(float* exchange) {
    AttentionPart<P> part;
    for (int turn = 0; attention_turn<P, L>(f, nullptr, attention_tile(turn), part); ++turn) {
      const int row = part.row;
      unit = part.unit;
      const int lane = (int)threadIdx.x % 32;
      AttentionRows rows[P::row_blocks];
      float o[P::row_blocks][L::columns / 2];
#pragma unroll
      for (int r = 0; r < P::row_blocks; ++r) {
        own_row[r] = row + (warp * P::row_blocks + r) * 16;
        row0[r] = min(own_row[r] + lane / 4, P::rows - 1);
        row1[r] = min(own_row[r] + lane / 4 + 8, P::rows - 1);
        rows[r] = {{no_score(), no_score()}, {0.0f, 0.0f}, {1.0f, 1.0f}};
#pragma unroll
        for (int i = 0; i < L::columns / 2; ++i) o[r][i] = 0.0f;
      }
      const AttentionSpan span = attention_span<P, L>(f, part);
      if (span.begin < span.end) walk(span, part, rows, o);
#pragma unroll
      for (int r = 0; r < P::row_blocks; ++r)
        attention_store<P, L>(f, o[r], rows[r], part, own_row[r], row0[r], row1[r], exchange);
    }
  }

 private:
  /// The i-th tile from the last on, if there is one. Always ends a group, so that groups count tiles.
  PL_DEVICE void ask_keys(const AttentionSpan& span, int i) {
    if (i < span.end - span.begin)
      attention_bring<P::tile_keys, P::features, L::threads, P::key_stride>(
          base + L::keys_at + i % P::stages * L::key_bytes, f.keys(unit), (span.end - 1 - i) * P::tile_keys, P::keys);
    cp_async_commit();
  }
  PL_DEVICE void ask_values(const AttentionSpan& span, int i) {
    if (i < span.end - span.begin)
      attention_bring<P::tile_keys, P::columns, L::threads, P::value_stride>(
          base + L::values_at + i % P::stages * L::value_bytes, f.values(unit), (span.end - 1 - i) * P::tile_keys,
          P::keys);
    cp_async_commit();
  }

  PL_DEVICE void load_queries(u32 (&q)[P::row_blocks][4], int step) const {
#pragma unroll
    for (int r = 0; r < P::row_blocks; ++r) of_queries.load(q[r], base + step / 4 * (L::rows * 128), r, step % 4 * 16);
  }

  PL_DEVICE void multiply_keys(float (&s)[P::row_blocks][P::tile_keys / 2], u32 tile,
                               const u32 (&kept)[L::keeps_queries ? L::feature_steps : 1][P::row_blocks][4]) const {
#pragma unroll
    for (int r = 0; r < P::row_blocks; ++r) {
#pragma unroll
      for (int i = 0; i < P::tile_keys / 2; ++i) s[r][i] = 0.0f;
    }
#pragma unroll
    for (int step = 0; step < L::feature_steps; ++step) {
      u32 q[P::row_blocks][4];
      if constexpr (L::keeps_queries) {
#pragma unroll
        for (int r = 0; r < P::row_blocks; ++r) {
#pragma unroll
          for (int i = 0; i < 4; ++i) q[r][i] = kept[step][r][i];
        }
      } else {
        load_queries(q, step);
      }
#pragma unroll
      for (int j = 0; j < P::tile_keys / 16; ++j) {
        u32 k[4];
        of_keys.load(k, tile + step / 4 * (P::tile_keys * 128), j, step % 4 * 16);
#pragma unroll
        for (int r = 0; r < P::row_blocks; ++r) {
          mma_into<P::bf16>(s[r] + 8 * j, q[r], k[0], k[1]);
          mma_into<P::bf16>(s[r] + 8 * j + 4, q[r], k[2], k[3]);
        }
      }
    }
  }

  /// Weights are rounded as they are multiplied: the accumulator's order is the first operand's.
  PL_DEVICE void multiply_values(float (&o)[P::row_blocks][L::columns / 2],
                                 const float (&s)[P::row_blocks][P::tile_keys / 2], u32 tile) const {
#pragma unroll
    for (int step = 0; step < P::tile_keys / 16; ++step) {
      u32 p[P::row_blocks][4];
#pragma unroll
      for (int r = 0; r < P::row_blocks; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float low = s[r][step * 8 + 2 * i], high = s[r][step * 8 + 2 * i + 1];
          p[r][i] = P::bf16 ? pack_bf16(low, high) : pack_f16(low, high);
        }
      }
#pragma unroll
      for (int j = 0; j < L::columns / 16; ++j) {
        u32 v[4];
        of_values.load(v, tile, j, step * 16);
#pragma unroll
        for (int r = 0; r < P::row_blocks; ++r) {
          mma_into<P::bf16>(o[r] + 8 * j, p[r], v[0], v[1]);
          mma_into<P::bf16>(o[r] + 8 * j + 4, p[r], v[2], v[3]);
        }
      }
    }
  }

  PL_DEVICE void walk(const AttentionSpan& span, const AttentionPart<P>& part, AttentionRows (&rows)[P::row_blocks],
                      float (&o)[P::row_blocks][L::columns / 2]) {
    // All have left what the turn before had.
    __syncthreads();
    attention_bring<L::rows, P::features, L::threads, P::query_stride>(base, f.queries(unit), part.row, P::rows);
#pragma unroll
    for (int i = 0; i < P::stages; ++i) {
      ask_keys(span, i);
      if (i + 1 < P::stages) ask_values(span, i);
    }
    u32 kept[L::keeps_queries ? L::feature_steps : 1][P::row_blocks][4];
    const int count = span.end - span.begin;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const int tile = span.end - 1 - i, stage = i % P::stages;
      typename F::Ahead ahead[P::row_blocks];
#pragma unroll
      for (int r = 0; !P::plain && r < P::row_blocks; ++r)
        f.ask(ahead[r], unit, row0[r], row1[r], tile * P::tile_keys + (int)threadIdx.x % 4 * 2);
      // These keys are there, and all have left the values before: their place is the next to fill.
      cp_async_wait<2 * (P::stages - 1)>();
      __syncthreads();
      ask_values(span, i + P::stages - 1);
      if constexpr (L::keeps_queries) {
        if (i == 0) {
#pragma unroll
          for (int step = 0; step < L::feature_steps; ++step) load_queries(kept[step], step);
        }
      }
      float s[P::row_blocks][P::tile_keys / 2];
      multiply_keys(s, base + L::keys_at + stage * L::key_bytes, kept);
#pragma unroll
      for (int r = 0; r < P::row_blocks; ++r) {
        attention_score<P>(f, s[r], ahead[r], tile, span, part, row0[r], row1[r]);
        if (attention_soften<P>(s[r], rows[r])) {
#pragma unroll
          for (int j = 0; j < L::columns / 2; ++j) o[r][j] *= rows[r].less[j % 4 / 2];
        }
      }
      // These values are there, and all have left the keys.
      cp_async_wait<2 * (P::stages - 1)>();
      __syncthreads();
      ask_keys(span, i + P::stages);
      multiply_values(o, s, base + L::values_at + stage * L::value_bytes);
    }
  }

  const F& f;
  const u32 base;
  const int warp;
  int unit, own_row[P::row_blocks], row0[P::row_blocks], row1[P::row_blocks];
  const OperandFragments<true, false, 64> of_queries;
  const OperandFragments<false, false, 64> of_keys;
  const OperandFragments<false, true, P::tile_keys> of_values;
};

/// All of a kernel of MmaAttentionLayout<P>::threads threads a block, with `bytes` + 128 of dynamic shared memory at
/// `memory`. Any number of blocks; as many as there are tiles are dealt out by whoever is done first.
template <typename P, typename F>
PL_DEVICE void attention_by_mma(const F& f, unsigned char* memory) {
  using L = MmaAttentionLayout<P>;
  const u32 base = (shared_address(memory) + 127u) & ~127u;
  unsigned char* const exchange = memory + (base - shared_address(memory)) + L::exchange_at;
  MmaAttention<P, F> block(f, base);
  block.run((float*)exchange + (int)threadIdx.x / 32 * (8 * L::exchange_pitch));
}
