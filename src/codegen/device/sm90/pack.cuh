#pragma once
// Packing of a factor for the tensor cores: rows scaled by powers of two, rounded to one or two numbers of fp16, in
// chunks of eight.

#include "sm90/cluster.cuh"
#include "sm90/ptx.cuh"
#include "sums.cuh"

template <typename T>
PL_DEVICE T pl_ldg(const T* p) {
  return __ldg(p);
}
/// Eight elements, `unit` of them at once.
template <int unit, typename T>
PL_DEVICE void read_eight(T (&d)[8], const T* p) {
#pragma unroll
  for (int i = 0; i < 8; i += unit) {
    if (unit * sizeof(T) == 16)
      *(uint4*)&d[i] = __ldg((const uint4*)(p + i));
    else if (unit * sizeof(T) == 8)
      *(uint2*)&d[i] = __ldg((const uint2*)(p + i));
    else if (unit * sizeof(T) == 4)
      *(unsigned*)&d[i] = __ldg((const unsigned*)(p + i));
    else
      for (int j = 0; j < unit; ++j) d[i + j] = __ldg(p + i + j);
  }
}
PL_DEVICE float most_of_lanes(float v, int apart) {
  return fmaxf(v, __shfl_xor_sync(~0u, v, apart));
}
PL_DEVICE float power_of_two(int e) {
  return __int_as_float((127 + e) << 23);
}

struct __align__(16) Chunk {
  unsigned short x[8];
};
PL_DEVICE void put_chunk(unsigned char* p, const Chunk& c) {
  *(uint4*)p = *(const uint4*)&c;
}
/// The pairs of a chunk, each into a chunk of its own.
PL_DEVICE void put_pairs(unsigned char* p, const Chunk& c) {
#pragma unroll
  for (int i = 0; i < 4; ++i) *(unsigned*)(p + i * 128) = ((const unsigned*)&c)[i];
}

// ---- scales ----

/// The exponent that brings `top` into [2^13, 2^14).
PL_DEVICE int scaling_exponent(float top) {
  const int e = (int)(__float_as_uint(top) >> 23);
  return top == 0.0f ? 0 : (e == 0 ? 1 : e) - 140;
}
/// The power of two that most rows may be multiplied by, and whether one whose largest magnitude this is may: it stays
/// below what fp16 holds, and what is lost below fp16's least value is 2^-20 of it, or 2^-31 where operands are split.
PL_DEVICE float usual_factor() {
  return 64.0f;
}
PL_DEVICE int usual_exponent() {
  return -6;
}
PL_DEVICE bool is_usual(float top) {
  return top == 0.0f || (top >= 0x1p-11f && top < 512.0f);
}
/// Where the parts are summed together the low one has no scale of its own: 2^-33 of the largest magnitude is lost.
PL_DEVICE float usual_factor_joint() {
  return 2048.0f;
}
PL_DEVICE int usual_exponent_joint() {
  return -11;
}
PL_DEVICE bool is_usual_joint(float top) {
  return top == 0.0f || (top >= 0.125f && top < 16.0f);
}
/// Of operands whose rows slide: what needs no scale.
PL_DEVICE bool is_safe(float top) {
  return top == 0.0f || (top >= 0.5f && top < 32768.0f);
}
PL_DEVICE void note_magnitude(int* notes, int image, float top) {
  const int bits = __float_as_int(top);
  if (image >= 0 && bits > *(volatile int*)(notes + image)) atomicMax(notes + image, bits);
}

// ---- parts of x, which is s once scaled ----

PL_DEVICE unsigned short high_part(float x, float s) {
  const unsigned short high = f16_bits(s);
  return x != 0.0f && (high & 0x7fff) == 0 ? (unsigned short)(high | 1) : high;
}
PL_DEVICE unsigned short low_part(float s, unsigned short high) {
  return is_finite(s) ? f16_bits((s - f16_value(high)) * 2048.0f) : (unsigned short)0;
}
PL_DEVICE unsigned short low_part_joint(float s, unsigned short high) {
  return is_finite(s) ? f16_bits(s - f16_value(high)) : (unsigned short)0;
}
