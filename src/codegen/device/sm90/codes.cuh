#pragma once
// Weights stored in 8 or 4 bits, as pairs of 16-bit numbers: eight at a time, in the order in which they are cheapest
// to take apart. Every code is exact in bf16 and in f16.

#include "sm90/ptx.cuh"

/// How a code is read. `computed`: by the policy, element by element.
enum SkinnyCode { code_none, code_i8, code_u8, code_e4m3, code_e5m2, code_nibbles, code_computed };
/// What a scale belongs to: a row of weights, the four pieces that a warp has of a row and step, or one piece.
enum SkinnyScale { scale_none, scale_row, scale_step, scale_piece };

/// One number of 16 bits twice.
template <bool bf16>
PL_DEVICE u32 code_twice(float v) {
  return bf16 ? pack_bf16(v, v) : pack_f16(v, v);
}

/// Four codes of a word, two at a time: in i8 and u8 those of bytes 0 and 2, then 1 and 3, else neighbours.
template <SkinnyCode code, bool bf16>
PL_DEVICE void code_bytes(u32 word, int zero, u32& first, u32& second) {
  if constexpr (code == code_e4m3 || code == code_e5m2) {
    const u32 low = code == code_e4m3 ? pair_of_e4m3(word) : byte_permute(word, 0, 0x1404);
    const u32 high = code == code_e4m3 ? pair_of_e4m3(word >> 16) : byte_permute(word, 0, 0x3424);
    first = bf16 ? bf16_of_f16(low) : low;
    second = bf16 ? bf16_of_f16(high) : high;
  } else {
    u32* const out[2] = {&first, &second};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const u32 v = i == 0 ? word : word >> 8;
      if constexpr (bf16) {
        // Seven bits under the exponent of 128, and the eighth as 128 or 256.
        const u32 low = and_or(v, 0x007f007fu, 0x43004300u), high = and_or(v, 0x00800080u, 0x43004300u);
        if constexpr (code == code_i8) {
          *out[i] = sub_pairs<true>(low, high);
        } else {
          *out[i] = add_pairs<true>(low, sub_pairs<true>(high, 0x43804380u));
        }
        if (zero != 0) *out[i] = sub_pairs<true>(*out[i], code_twice<true>((float)zero));
      } else {
        // Eight bits under the exponent of 1024.
        const u32 under = (v & 0x00ff00ffu) ^ (code == code_i8 ? 0x64806480u : 0x64006400u);
        *out[i] = sub_pairs<false>(under, code_twice<false>((float)(1024 + (code == code_i8 ? 128 : 0) + zero)));
      }
    }
  }
}

/// Whether whole codes are read as they lie: the lower eight bits of a bf16 are a number times 2^-133, up to the lowest
/// bit of the exponent, which one fma makes a 64th of what it means, less the zero point. Sums are 64 times that.
/// Scales of pieces are multiplied in 16 bits, where the last powers of two would be short of 64.
template <class P>
constexpr bool skinny_tiny =
    P::bf16 && P::scaling != scale_piece && (P::code == code_i8 || P::code == code_u8 || P::code == code_nibbles);
template <class P>
constexpr float skinny_worth = skinny_tiny<P> ? 64.0f : 1.0f;
/// What is taken off every code that is read so: i8 is read with its upper bit the other way round.
template <class P>
constexpr int skinny_base = P::zero + (P::code == code_i8 ? 128 : 0);
/// Whether the fma takes the zero point off that is loaded.
template <class P>
constexpr bool skinny_takes_zero = skinny_tiny<P> && P::zeroed && skinny_base<P> == 0;

/// What skinny_weights() needs of a zero point.
template <class P>
PL_DEVICE u32 skinny_zero(float zero_point) {
  return code_twice<P::bf16>(zero_point / (skinny_takes_zero<P> ? -skinny_worth<P> : skinny_worth<P>));
}

/// Eight codes as they lie, times 1/64: two words of bytes, in pairs of bytes 0 and 2, then 1 and 3; or one of nibbles:
/// 0 and 4, 1 and 5, 2 and 6, 3 and 7.
template <class P>
PL_DEVICE void skinny_tiny_codes(u32 first, u32 second, u32 zero_point, u32 (&out)[4]) {
  constexpr u32 large = 0x7f007f00u;  // 2^127
  const u32 less = skinny_takes_zero<P> ? zero_point : code_twice<true>(-(float)skinny_base<P> / skinny_worth<P>);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (P::code == code_nibbles) {
      const u32 v = i == 0 ? first : first >> 8;
      constexpr u32 low = P::flipped ? 0x00080008u : 0u, high = P::flipped ? 0x00800080u : 0u;
      out[2 * i] = fma_pairs<true>(and_xor(v, 0x000f000fu, low), large, less);
      out[2 * i + 1] = fma_pairs<true>(and_xor(v, 0x00f000f0u, high), 0x7d007d00u, less);  // 2^123
    } else {
      constexpr u32 upper = P::code == code_i8 ? 0x00800080u : 0u;
      const u32 v = i == 0 ? first : second;
      out[2 * i] = fma_pairs<true>(and_xor(v, 0x00ff00ffu, upper), large, less);
      out[2 * i + 1] = fma_pairs<true>(and_xor(v >> 8, 0x00ff00ffu, upper), large, less);
    }
  }
}

/// Eight codes of a word: 0 and 4, 1 and 5, 2 and 6, 3 and 7. `flipped`: with the upper bit the other way round.
template <bool bf16, bool flipped>
PL_DEVICE void code_nibble_pairs(u32 word, int zero, u32 (&out)[4]) {
  if constexpr (flipped) word ^= 0x88888888u;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (bf16) {
      const u32 under = and_or(word >> (4 * i), 0x000f000fu, 0x43004300u);
      out[i] = sub_pairs<true>(under, code_twice<true>((float)(128 + zero)));
    } else if (i % 2 == 0) {
      const u32 under = and_or(word >> (4 * i), 0x000f000fu, 0x64006400u);
      out[i] = sub_pairs<false>(under, code_twice<false>((float)(1024 + zero)));
    } else {  // 16 times the code under 1024
      const u32 under = and_or(word >> (4 * i - 4), 0x00f000f0u, 0x64006400u);
      out[i] = fma_pairs<false>(under, 0x2c002c00u, code_twice<false>(-(float)(64 + zero)));
    }
  }
}

/// Eight words, each with the nibbles of eight rows at one k, as a word of each of four rows: those of the words' upper
/// or lower halves. A row's codes are those of k = 0, 2, 4, 6, 1, 3, 5, 7, so that taken apart they are in order.
PL_DEVICE void code_turned(const u32 (&words)[8], int upper, int chunk, u32 (&rows)[4][4]) {
  constexpr u32 even = 0x0f0f0f0fu;
  u32 pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pair[i] = byte_permute(words[2 * i], words[2 * i + 1], upper ? 0x7632u : 0x5410u);
  const u32 first[2] = {(pair[0] & even) | (pair[1] << 4 & ~even), (pair[2] & even) | (pair[3] << 4 & ~even)};
  const u32 second[2] = {(pair[0] >> 4 & even) | (pair[1] & ~even), (pair[2] >> 4 & even) | (pair[3] & ~even)};
  rows[0][chunk] = byte_permute(first[0], first[1], 0x6240u);
  rows[1][chunk] = byte_permute(second[0], second[1], 0x6240u);
  rows[2][chunk] = byte_permute(first[0], first[1], 0x7351u);
  rows[3][chunk] = byte_permute(second[0], second[1], 0x7351u);
}

/// Elements 8·chunk … of a piece, as four pairs.
template <class P>
PL_DEVICE void skinny_weights(const typename P::Args& args, int part, int row, int piece, const uint4& raw, int chunk,
                              u32 zero_point, u32 scale, u32 (&out)[4]) {
  if constexpr (P::code == code_none) {
    out[0] = raw.x, out[1] = raw.y, out[2] = raw.z, out[3] = raw.w;
  } else if constexpr (P::code == code_computed) {
    const uint4 eight = P::weights(args, part, row, piece, raw, chunk);
    out[0] = eight.x, out[1] = eight.y, out[2] = eight.z, out[3] = eight.w;
  } else if constexpr (skinny_tiny<P>) {
    constexpr bool nibbles = P::code == code_nibbles;
    const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
    skinny_tiny_codes<P>(words[nibbles ? chunk : chunk * 2], words[nibbles ? chunk : chunk * 2 + 1], zero_point, out);
  } else if constexpr (P::code == code_nibbles) {
    const u32 word = chunk == 0 ? raw.x : chunk == 1 ? raw.y : chunk == 2 ? raw.z : raw.w;
    code_nibble_pairs<P::bf16, P::flipped>(word, P::zero, out);
  } else {
    code_bytes<P::code, P::bf16>(chunk == 0 ? raw.x : raw.z, P::zero, out[0], out[1]);
    code_bytes<P::code, P::bf16>(chunk == 0 ? raw.y : raw.w, P::zero, out[2], out[3]);
  }
  if constexpr (P::zeroed && !skinny_takes_zero<P>) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = sub_pairs<P::bf16>(out[i], zero_point);
  }
  if constexpr (P::scaling == scale_piece) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = mul_pairs<P::bf16>(out[i], scale);
  }
}

/// Eight elements of x in the order in which skinny_weights() gives those of weights.
template <class P>
PL_DEVICE uint4 skinny_ordered(const uint4& v) {
  if constexpr (P::order == 0x76543210u) {
    return v;
  } else {
    const u32 from[4] = {v.x, v.y, v.z, v.w};
    u32 to[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int low = P::order >> (8 * i) & 7, high = P::order >> (8 * i + 4) & 7;
      to[i] = byte_permute(from[low / 2], from[high / 2],
                           (high % 2 == 0 ? 0x5400u : 0x7600u) | (low % 2 == 0 ? 0x10u : 0x32u));
    }
    return make_uint4(to[0], to[1], to[2], to[3]);
  }
}

/// Byte `at` of a piece, for what is computed of codes.
PL_DEVICE u8 code_byte(const uint4& v, int at) {
  const u32 word = at < 4 ? v.x : at < 8 ? v.y : at < 12 ? v.z : v.w;
  return (u8)(word >> at % 4 * 8);
}
PL_DEVICE u16 code_half(const uint4& v, int at) {
  const u32 word = at < 2 ? v.x : at < 4 ? v.y : at < 6 ? v.z : v.w;
  return (u16)(word >> at % 2 * 16);
}
PL_DEVICE u32 code_word(const uint4& v, int at) {
  return at == 0 ? v.x : at == 1 ? v.y : at == 2 ? v.z : v.w;
}
