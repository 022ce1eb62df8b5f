#pragma once
// What tensor cores have summed, on its way to an epilogue.

#include "types.cuh"

PL_DEVICE bool is_finite(float v) {
  return (__float_as_uint(v) & 0x7f800000u) != 0x7f800000u;
}

/// v * 2^e as two factors, rounded once where the result is normal, for sums of products of operands that were scaled
/// (|v| from 2^-60 to 2^60): beyond |e| = 252 the result is infinite, or 0, as it is there.
struct PowerFactors {
  float one, other;
};
PL_DEVICE PowerFactors power_factors(int e) {
  e = min(max(e, -252), 252);
  const int half = e >> 1;
  return {__int_as_float((127 + half) << 23), __int_as_float((127 + e - half) << 23)};
}
PL_DEVICE float scale_by_power(float v, int e) {
  const PowerFactors f = power_factors(e);
  return v * f.one * f.other;
}

/// A warp's results in shared memory, in rows of `pitch`.
template <int pitch>
struct Exchange {
  const float* at;
  PL_DEVICE float operator()(int r, int c) const { return at[r * pitch + c]; }
};
/// The sums of columns c, c + 1, …, as many as `v` has, from a c that is a multiple of as many.
template <int pitch>
PL_DEVICE void neighbours(const Exchange<pitch>& sums, int r, int c, float (&v)[4]) {
  const float4 all = *(const float4*)(sums.at + r * pitch + c);
  v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
}
template <int pitch>
PL_DEVICE void neighbours(const Exchange<pitch>& sums, int r, int c, float (&v)[2]) {
  const float2 both = *(const float2*)(sums.at + r * pitch + c);
  v[0] = both.x, v[1] = both.y;
}
