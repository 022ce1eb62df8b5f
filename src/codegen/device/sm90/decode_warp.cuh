#pragma once
// Attention of a few queries: what a block has in shared memory, and what a warp does with a tile of 16 keys.
// The policy is that of sm90/decode_attention.cuh.

#include "sm90/decode_rows.cuh"
#include "softmax.cuh"

/// Nothing is written but results.
struct NoneWritten {
  static constexpr int rows = 0;
  struct Args {};
};

template <class P, class W = NoneWritten>
struct DecodeLayout {
  static constexpr int threads = P::warps * 32;
  static constexpr int tile = decode_tile;
  static constexpr int key_pieces = P::features / 32;  ///< of 16 bytes that a lane has of a key
  static constexpr int value_pieces = P::columns / 64;
  static constexpr int key_pitch = DecodeKeys<P>::pitch, value_pitch = DecodeValues<P>::pitch;
  static constexpr int stage_bytes = tile * (key_pitch + value_pitch);
  static constexpr int ring_bytes = P::stages * stage_bytes;  ///< of a warp
  static constexpr int query_bytes = P::computed ? P::rows * P::features * 2 : 0;
  static constexpr int written_pitch = (P::features + P::columns) * 2;                    ///< of a key and its value
  static constexpr int written_bytes = W::rows * written_pitch + (W::rows + 1) / 2 * 16;  ///< and where they go
  static constexpr int sums = P::rows * (P::columns + 2);  ///< floats that a block leaves
  /// Floats that a warp leaves. Four lie apart after each 32 columns, so that eight lanes of two rows, whose 16 columns
  /// follow each other, write to different banks.
  static constexpr int left_row = P::columns + P::columns / 32 * 4 + (P::columns / 32 % 4 == 0 ? 8 : 0);
  static constexpr int left_tops = P::rows * left_row, left_totals = left_tops + P::rows;
  static constexpr int left = left_tops + (2 * P::rows + 3) / 4 * 4;
  static PL_DEVICE int left_place(int row, int column) { return row * left_row + column + column / 32 * 4; }
  static constexpr bool streams = P::splits == 0;
  static constexpr int most_tiles = P::keys > tile ? (P::keys + tile - 1) / tile : 1;
  /// Blocks that share a unit, at most.
  static constexpr int sharing = !streams ? P::splits : P::blocks < most_tiles ? P::blocks : most_tiles;
  static constexpr int shares = P::rows * (sharing + 1);  ///< floats of whoever puts the blocks' sums together
  static constexpr int words = shares + 1;                ///< and how many blocks have come
  static constexpr int left_bytes = (P::warps * left > words ? P::warps * left + 3 : words + 3) / 4 * 16;
  /// In shared memory: queries, what is written, where units begin and end, sums, rings. Sums take the place of all
  /// others, where nothing follows them.
  static constexpr int written_at = query_bytes, list_at = written_at + written_bytes;
  static constexpr int list_bytes = streams ? (2 * P::units + 1 + 3) / 4 * 16 : 0;
  static constexpr int left_at = streams ? list_at + list_bytes : 0;
  static constexpr int ring_at = streams ? left_at + left_bytes : list_at;
  static constexpr int fill_bytes = ring_at + P::warps * ring_bytes;
  static constexpr int shared_bytes = fill_bytes > left_bytes ? fill_bytes : left_bytes;
};

/// What sums relative to `own` are worth relative to `top`, in powers of two.
PL_DEVICE float decode_share(float own, float top) {
  return own == top ? 1.0f : exp2_fast(own - top);
}

/// softmax_rebase() of sums of powers of two: `top` is times log2(e).
PL_DEVICE float decode_scale(float top, float shift) {
  const float own = top == no_score() ? 0.0f : top, its = shift * 1.44269504088896340736f;
  const bool nothing = top == no_score() && fabsf(shift) < -no_score();
  return nothing || own == its ? 1.0f : exp2_fast(own - its);
}

/// Eight elements: 0 and 2, 1 and 3, 4 and 6, 5 and 7.
PL_DEVICE uint4 every_second(const uint4& v) {
  return make_uint4(byte_permute(v.x, v.y, 0x5410), byte_permute(v.x, v.y, 0x7632), byte_permute(v.z, v.w, 0x5410),
                    byte_permute(v.z, v.w, 0x7632));
}

/// The state of a warp. Scores are times log2(e). Lane l has, with g = l / 4 and t = l % 4, rows g and g + 8; of a tile
/// keys 2t, 2t + 1, 2t + 8 and 2t + 9 of these scores, and the columns 8 (2t + 8 j) to 8 (2t + 8 j) + 15.
template <class P>
struct DecodeWarp {
  using L = DecodeLayout<P>;  // of what does not hang on what is written
  static constexpr int halves = P::rows > 8 ? 2 : 1;

  /// Queries are multiplied in f16: the largest of a row is brought to between 1 and 2, so that none overflows.
  static constexpr bool narrows = P::bf16 && !DecodeKeys<P>::bf16;

  float top[halves], total[halves], larger[halves];  ///< `larger`: what products are to be times
  float sums[L::value_pieces * 8][4];
  u32 q[L::key_pieces * 2][4];

  /// Eight features: computed ones lie at the shared address.
  static PL_DEVICE uint4 query(const typename P::Args& args, int unit, u32 computed, int row, int feature) {
    if constexpr (P::computed) {
      return shared_load_16(computed + (row * P::features + feature) * 2);
    } else {
      return P::query(args, unit, row, feature);
    }
  }

  PL_DEVICE void begin(const typename P::Args& args, int unit, u32 computed, int g, int t) {
#pragma unroll
    for (int h = 0; h < halves; ++h) top[h] = no_score(), total[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < L::value_pieces * 8; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
    uint4 given[halves][L::key_pieces];
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
#pragma unroll
      for (int h = 0; h < halves; ++h) {
        given[h][c] = make_uint4(0, 0, 0, 0);
        if (g + 8 * h < P::rows) given[h][c] = query(args, unit, computed, g + 8 * h, 8 * (t + 4 * c));
      }
    }
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      larger[h] = 1.0f;
      if constexpr (narrows) larger[h] = narrow(given[h]);
    }
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
      uint4 low = given[0][c], high = make_uint4(0, 0, 0, 0);
      if constexpr (halves > 1) high = given[1][c];
      if constexpr (decode_skips(P::key_code)) low = every_second(low), high = every_second(high);
      q[2 * c][0] = low.x, q[2 * c][1] = high.x, q[2 * c][2] = low.y, q[2 * c][3] = high.y;
      q[2 * c + 1][0] = low.z, q[2 * c + 1][1] = high.z, q[2 * c + 1][2] = low.w, q[2 * c + 1][3] = high.w;
    }
  }

  /// A row of queries, of which four lanes have a part each, from bf16 to f16; what they are smaller by is returned, a
  /// power of two. Infinities and NaN stay, and count for no largest.
  static PL_DEVICE float narrow(uint4 (&given)[L::key_pieces]) {
    u32 most = 0;
    u32(*const words)[4] = (u32(*)[4])given;
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const u32 high = words[c][i] & 0x7fff0000u, low = words[c][i] << 16 & 0x7fff0000u;
        if (high < 0x7f800000u) most = max(most, high);
        if (low < 0x7f800000u) most = max(most, low);
      }
    }
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, __int_as_float(most), apart);
      most = max(most, __float_as_uint(other));
    }
    const u32 exponent = min(max(most >> 23, 1u), 253u);
    const float smaller = __int_as_float((254u - exponent) << 23);
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[c][i] =
            pack_f16(__int_as_float(words[c][i] << 16) * smaller, __int_as_float(words[c][i] & 0xffff0000u) * smaller);
    }
    return __int_as_float(exponent << 23);
  }

  /// A row's four scores of a tile become weights in 16 bits, of the maximum so far; what was summed before is scaled.
  PL_DEVICE void soften(int h, float (&x)[4], const float (&times)[4], u32 (&weights)[4]) {
    float most = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    most = fmaxf(most, top[h]);
    if (__any_sync(0xffffffffu, most > top[h])) {
      const float less = decode_share(top[h], most);
      total[h] *= less;
#pragma unroll
      for (int i = 0; i < L::value_pieces * 8; ++i) sums[i][2 * h] *= less, sums[i][2 * h + 1] *= less;
      top[h] = most;
    }
    const float base = most == no_score() ? 0.0f : most;
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = exp2_fast(x[i] - base);
    total[h] += (x[0] + x[1]) + (x[2] + x[3]);
    if constexpr (P::weighs) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] *= times[i];
    }
    weights[h] = DecodeValues<P>::bf16 ? pack_bf16(x[0], x[1]) : pack_f16(x[0], x[1]);
    weights[2 + h] = DecodeValues<P>::bf16 ? pack_bf16(x[2], x[3]) : pack_f16(x[2], x[3]);
  }

  /// `at`: the tile in shared memory.
  PL_DEVICE void take(u32 at, const typename P::Given (&given)[halves][4], const typename P::Args& args, int unit,
                      int g, int t, int first, int end) {
    float products[2][4] = {};
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const uint4 key = decode_eight<DecodeKeys<P>>(at + (g + k * 8) * L::key_pitch, 8 * (t + 4 * c));
        mma_16x8x16<DecodeKeys<P>::bf16>(products[k], q[2 * c][0], q[2 * c][1], q[2 * c][2], q[2 * c][3], key.x, key.y);
        mma_16x8x16<DecodeKeys<P>::bf16>(products[k], q[2 * c + 1][0], q[2 * c + 1][1], q[2 * c + 1][2],
                                         q[2 * c + 1][3], key.z, key.w);
      }
    }
    u32 weights[4] = {0, 0, 0, 0};
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      const int row = min(g + 8 * h, P::rows - 1);
      float x[4], times[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + 2 * t + i % 2 + i / 2 * 8;
        const float product = products[i / 2][2 * h + i % 2] * (narrows ? larger[h] : 1.0f);
        const float score = P::score(product, given[h][i], args, unit, row, key);
        x[i] = key < end ? score * 1.44269504088896340736f : no_score();
        if constexpr (P::weighs) times[i] = key < end ? P::weight(given[h][i], args, unit, key) : 0.0f;
      }
      soften(h, x, times, weights);
    }
    const u32 from = at + L::tile * L::key_pitch + 2 * t * L::value_pitch;
#pragma unroll
    for (int j = 0; j < L::value_pieces; ++j) {
      uint4 v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        v[k] = decode_eight<DecodeValues<P>>(from + (k % 2 + k / 2 * 8) * L::value_pitch, 8 * (g + 8 * j));
      const u32(*words)[4] = (const u32(*)[4])v;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const u32 pick = part == 0 ? 0x5410 : 0x7632;
          const int column = decode_skips(P::value_code) ? i / 2 * 4 + i % 2 + 2 * part : 2 * i + part;
          mma_16x8x16<DecodeValues<P>::bf16>(sums[j * 8 + column], weights[0], weights[1], weights[2], weights[3],
                                             __byte_perm(words[0][i], words[1][i], pick),
                                             __byte_perm(words[2][i], words[3][i], pick));
        }
      }
    }
  }

  /// Sums, maxima and totals of all rows to `to`, as DecodeLayout has them.
  PL_DEVICE void leave(float* to, int g, int t) {
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      float all = total[h] + __shfl_xor_sync(0xffffffffu, total[h], 1);
      all += __shfl_xor_sync(0xffffffffu, all, 2);
      const int row = g + 8 * h;
      if (row >= P::rows) continue;
      if (t == 0) to[L::left_tops + row] = top[h], to[L::left_totals + row] = all;
#pragma unroll
      for (int j = 0; j < L::value_pieces; ++j) {
        float4* const mine = (float4*)(to + L::left_place(row, 16 * t + 64 * j));
        const float(*of)[4] = sums + j * 8;
        const int low = 2 * h, high = 2 * h + 1;
        mine[0] = make_float4(of[0][low], of[1][low], of[2][low], of[3][low]);
        mine[1] = make_float4(of[4][low], of[5][low], of[6][low], of[7][low]);
        mine[2] = make_float4(of[0][high], of[1][high], of[2][high], of[3][high]);
        mine[3] = make_float4(of[4][high], of[5][high], of[6][high], of[7][high]);
      }
    }
  }
};
