#pragma once
// Numbers of fp32 as two of fp16, x = high + low · 2^-11, made by the threads that bring an operand or that multiply.
// Rows whose largest magnitude does not fit are to be scaled, which is done elsewhere: here they are only met.

#include "sm90/ptx.cuh"

/// Two at once.
PL_DEVICE void split_pair(u32& high, u32& low, float a, float b) {
  high = pack_f16(a, b);
  float x, y;
  unpack_f16(x, y, high);
  low = pack_f16((a - x) * 2048.0f, (b - y) * 2048.0f);
}

/// Grows with |x|; Inf and NaN are above all numbers.
PL_DEVICE unsigned magnitude_bits(float x) {
  return __float_as_uint(x) & 0x7fffffffu;
}
/// Whether a row with this largest magnitude needs no scale: from 2^-9, of which 2^-36 may be lost, to 2^15.
PL_DEVICE bool fits_unscaled(unsigned top) {
  return top == 0 || (top >= 0x3b000000u && top < 0x47000000u);
}

// ---- by those that bring an operand ----

struct Eight {
  float v[8];
};
/// Zeros where it is not `there`.
PL_DEVICE Eight take_eight(const char* from, bool there) {
  Eight e;
  const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  *(float4*)e.v = there ? __ldg((const float4*)from) : none;
  *(float4*)(e.v + 4) = there ? __ldg((const float4*)from + 1) : none;
  return e;
}
/// Both parts, to shared addresses.
PL_DEVICE void keep_eight(u32 high, u32 low, const Eight& e) {
  u32 h[4], l[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) split_pair(h[i], l[i], e.v[2 * i], e.v[2 * i + 1]);
  shared_store_words(high, h);
  shared_store_words(low, l);
}
/// Eight channels of a place, which are `apart` elements from each other; zeros where there is none.
template <int apart>
PL_DEVICE void load_eight(Eight& e, const float* from, bool there) {
  load_strided_8<apart>(e.v, from, there);
}

// ---- by those that multiply ----

/// What a thread has of both parts of 16 rows and 16 k: those of its row at `from`, and of the row 8 below.
PL_DEVICE void split_rows(u32 (&high)[4], u32 (&low)[4], float (&top)[2], u32 from) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float x[4];
    shared_load_floats(x, from + h * 1024);
    split_pair(high[h], low[h], x[0], x[1]);
    split_pair(high[h + 2], low[h + 2], x[2], x[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) top[h] = larger_magnitude(top[h], x[i]);
  }
}
/// Whether lanes that have the same rows saw one that has to be scaled; forgets it.
PL_DEVICE bool odd_rows_seen(float (&top)[2]) {
  bool odd = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    top[h] = larger_magnitude(top[h], __shfl_xor_sync(~0u, top[h], 1));
    top[h] = larger_magnitude(top[h], __shfl_xor_sync(~0u, top[h], 2));
    odd = odd | !fits_unscaled(magnitude_bits(top[h]));
    top[h] = 0.0f;
  }
  return odd;
}
