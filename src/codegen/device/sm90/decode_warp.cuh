#pragma once
// Attention of a few queries: what a block has in shared memory, and what a warp does with a tile of keys.
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
  static constexpr int tile = P::tile;
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
  static constexpr int shares = P::rows * (P::splits + 1);  ///< floats of whoever puts the blocks' sums together
  static constexpr int words = shares + 1;                  ///< and how many blocks have come
  static constexpr int left_bytes = P::warps * left > words ? P::warps* left * 4 : words * 4;
  static constexpr int fill_bytes = query_bytes + written_bytes + P::warps * ring_bytes;
  static constexpr int shared_bytes = fill_bytes > left_bytes ? fill_bytes : left_bytes;
};

constexpr float log2_of_e = 1.44269504088896340736f;

/// What sums relative to `own` are worth relative to `top`.
PL_DEVICE float decode_share(float own, float top) {
  return own == top ? 1.0f : exp2_fast((own - top) * log2_of_e);
}

/// softmax_rebase(), sooner.
PL_DEVICE float decode_scale(float top, float shift) {
  const float own = top == no_score() ? 0.0f : top;
  const bool nothing = top == no_score() && fabsf(shift) < -no_score();
  return nothing || own == shift ? 1.0f : exp2_fast((own - shift) * log2_of_e);
}

/// Eight elements: 0 and 2, 1 and 3, 4 and 6, 5 and 7.
PL_DEVICE uint4 every_second(const uint4& v) {
  return make_uint4(byte_permute(v.x, v.y, 0x5410), byte_permute(v.x, v.y, 0x7632), byte_permute(v.z, v.w, 0x5410),
                    byte_permute(v.z, v.w, 0x7632));
}

/// The state of a warp. Keys, and values' columns, are the operand of tensor cores with 16
/// rows; rows of queries are the one with 8, once or twice. Lane l has, with g = l / 4 and t = l % 4, rows 2t and
/// 2t + 1 of each eight: of a tile the scores of keys g, g + 8 and so on, and the columns 8 (g + 8 j) to 8 (g + 8 j)
/// + 7.
template <class P>
struct DecodeWarp {
  using L = DecodeLayout<P>;  // of what does not hang on what is written
  static constexpr int halves = P::rows > 8 ? 2 : 1;
  static constexpr int scores = L::tile / 4;  ///< that a lane has of a tile and half

  /// Queries are multiplied in f16: the largest of a row is brought to between 1 and 2, so that none overflows.
  static constexpr bool narrows = P::bf16 && !DecodeKeys<P>::bf16;

  float top[halves][2], total[halves][2], larger[halves][2];  ///< `larger`: what products are to be times
  float sums[L::value_pieces * 4][halves][4];                 ///< of two columns, two rows each
  u32 q[halves][L::key_pieces][4];

  /// Of a tile's scores of half h, the row and the key.
  static PL_DEVICE int row(int h, int i, int t) { return min(8 * h + 2 * t + i % 2, P::rows - 1); }
  static PL_DEVICE int key(int i, int g) { return g + i / 2 * 8; }

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
    for (int h = 0; h < halves; ++h) {
      uint4 given[L::key_pieces];
#pragma unroll
      for (int c = 0; c < L::key_pieces; ++c) {
        given[c] = make_uint4(0, 0, 0, 0);
        if (g + 8 * h < P::rows) given[c] = query(args, unit, computed, g + 8 * h, 8 * (t + 4 * c));
      }
      float own = 1.0f;
      if constexpr (narrows) own = narrow(given);
#pragma unroll
      for (int c = 0; c < L::key_pieces; ++c) {
        const uint4 eight = decode_skips(P::key_code) ? every_second(given[c]) : given[c];
        q[h][c][0] = eight.x, q[h][c][1] = eight.y, q[h][c][2] = eight.z, q[h][c][3] = eight.w;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        top[h][i] = no_score(), total[h][i] = 0.0f;
        if constexpr (narrows) larger[h][i] = __shfl_sync(0xffffffffu, own, 4 * (2 * t + i));
      }
#pragma unroll
      for (int i = 0; i < L::value_pieces * 4; ++i)
        sums[i][h][0] = sums[i][h][1] = sums[i][h][2] = sums[i][h][3] = 0.0f;
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

  /// Scores of a tile become weights, of the maximum so far; what was summed before is scaled.
  PL_DEVICE void soften(int h, float (&x)[scores]) {
    float most[2], less[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      most[i] = x[i];
#pragma unroll
      for (int k = i + 2; k < scores; k += 2) most[i] = fmaxf(most[i], x[k]);
#pragma unroll
      for (int apart = 4; apart < 32; apart *= 2)
        most[i] = fmaxf(most[i], __shfl_xor_sync(0xffffffffu, most[i], apart));
      most[i] = fmaxf(most[i], top[h][i]);
    }
    if (__any_sync(0xffffffffu, most[0] > top[h][0] || most[1] > top[h][1])) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        less[i] = decode_share(top[h][i], most[i]);
        total[h][i] *= less[i];
        top[h][i] = most[i];
      }
#pragma unroll
      for (int i = 0; i < L::value_pieces * 4; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][h][k] *= less[k % 2];
      }
    }
    const float base[2] = {most[0] == no_score() ? 0.0f : most[0], most[1] == no_score() ? 0.0f : most[1]};
#pragma unroll
    for (int i = 0; i < scores; ++i) x[i] = exp2_fast((x[i] - base[i % 2]) * log2_of_e);
#pragma unroll
    for (int i = 0; i < scores; i += 4) total[h][0] += x[i] + x[i + 2], total[h][1] += x[i + 1] + x[i + 3];
  }

  /// `at`: the tile in shared memory.
  PL_DEVICE void take(u32 at, const typename P::Given (&given)[halves][scores], const typename P::Args& args, int unit,
                      int g, int t, int first, int end) {
    constexpr int parts = L::tile / 16;
    float products[halves][parts][2][4] = {};  // two sums each, so that a product waits for less
#pragma unroll
    for (int c = 0; c < L::key_pieces; ++c) {
#pragma unroll
      for (int u = 0; u < parts; ++u) {
        const u32 from = at + (g + 16 * u) * L::key_pitch;
        const uint4 low = decode_eight<DecodeKeys<P>>(from, 8 * (t + 4 * c));
        const uint4 high = decode_eight<DecodeKeys<P>>(from + 8 * L::key_pitch, 8 * (t + 4 * c));
#pragma unroll
        for (int h = 0; h < halves; ++h) {
          constexpr bool bf16 = DecodeKeys<P>::bf16;
          mma_16x8x16<bf16>(products[h][u][0], low.x, high.x, low.y, high.y, q[h][c][0], q[h][c][1]);
          mma_16x8x16<bf16>(products[h][u][1], low.z, high.z, low.w, high.w, q[h][c][2], q[h][c][3]);
        }
      }
    }
    u32 weights[halves][parts][2];  // of keys 2t and 2t + 1, then of those 8 later: row g
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      float x[scores];
#pragma unroll
      for (int i = 0; i < scores; ++i) {
        const int place = first + key(i, g);
        const float product =
            (products[h][i / 4][0][i % 4] + products[h][i / 4][1][i % 4]) * (narrows ? larger[h][i % 2] : 1.0f);
        const float score = P::score(product, given[h][i], args, unit, row(h, i, t), place);
        x[i] = place < end ? score : no_score();
      }
      soften(h, x);
      if constexpr (P::weighs) {
#pragma unroll
        for (int i = 0; i < scores; ++i)
          x[i] *= first + key(i, g) < end ? P::weight(given[h][i], args, unit, first + key(i, g)) : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < scores / 2; ++k)
        weights[h][k / 2][k % 2] = matrix_transpose(DecodeValues<P>::bf16 ? pack_bf16(x[2 * k], x[2 * k + 1])
                                                                          : pack_f16(x[2 * k], x[2 * k + 1]));
    }
#pragma unroll
    for (int j = 0; j < L::value_pieces; ++j) {
#pragma unroll
      for (int u = 0; u < parts; ++u) {
        const u32 from = at + L::tile * L::key_pitch + (2 * t + 16 * u) * L::value_pitch;
        uint4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
          v[k] = decode_eight<DecodeValues<P>>(from + (k % 2 + k / 2 * 8) * L::value_pitch, 8 * (g + 8 * j));
        const u32(*words)[4] = (const u32(*)[4])v;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          u32 pairs[4];  // of the word's first column, then of its second: keys 2t and 2t + 1, then those 8 later
#pragma unroll
          for (int k = 0; k < 4; ++k)
            pairs[k] = byte_permute(words[k / 2 * 2][i], words[k / 2 * 2 + 1][i], k % 2 == 0 ? 0x5410 : 0x7632);
#pragma unroll
          for (int h = 0; h < halves; ++h)
            mma_16x8x16<DecodeValues<P>::bf16>(sums[j * 4 + i][h], pairs[0], pairs[1], pairs[2], pairs[3],
                                               weights[h][u][0], weights[h][u][1]);
        }
      }
    }
  }

  /// Sums, maxima and totals of all rows to `to`, as DecodeLayout has them.
  PL_DEVICE void leave(float* to, int g, int t) {
    constexpr bool skips = decode_skips(P::value_code);
#pragma unroll
    for (int h = 0; h < halves; ++h) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float all = total[h][i];
#pragma unroll
        for (int apart = 4; apart < 32; apart *= 2) all += __shfl_xor_sync(0xffffffffu, all, apart);
        const int row = 8 * h + 2 * t + i;
        if (row >= P::rows) continue;
        if (g == 0) to[L::left_tops + row] = top[h][i], to[L::left_totals + row] = all;
#pragma unroll
        for (int j = 0; j < L::value_pieces; ++j) {
          float4* const mine = (float4*)(to + L::left_place(row, 8 * (g + 8 * j)));
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const auto& first = sums[j * 4 + 2 * k][h];
            const auto& second = sums[j * 4 + 2 * k + 1][h];
            mine[k] = skips ? make_float4(first[i], second[i], first[2 + i], second[2 + i])
                            : make_float4(first[i], first[2 + i], second[i], second[2 + i]);
          }
        }
      }
    }
  }
};
