#define PL_FN __device__ __forceinline__
#define PL_INF_F32 __int_as_float(0x7f800000)
#define PL_NAN_F32 __int_as_float(0x7fc00000)
#define PL_INF_F64 __longlong_as_double(0x7ff0000000000000LL)
#define PL_NAN_F64 __longlong_as_double(0x7ff8000000000000LL)
PL_FN unsigned short pl_to_f16(float x) { unsigned short r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
PL_FN float pl_from_f16(unsigned short x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r; }
PL_FN unsigned short pl_to_bf16(float x) { unsigned short r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
PL_FN float pl_from_bf16(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
PL_FN float pl_max(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
PL_FN float pl_min(float a, float b) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
PL_FN float pl_rsqrt(float x) { return rsqrtf(x); }
PL_FN double pl_rsqrt(double x) { return rsqrt(x); }
PL_FN double pl_max(double a, double b) { return (a > b) | (a != a) ? a : b; }
PL_FN double pl_min(double a, double b) { return (a < b) | (a != a) ? a : b; }
PL_FN long long pl_max(long long a, long long b) { return a > b ? a : b; }
PL_FN long long pl_min(long long a, long long b) { return a < b ? a : b; }
PL_FN int pl_max(int a, int b) { return a > b ? a : b; }
PL_FN int pl_min(int a, int b) { return a < b ? a : b; }
PL_FN float pl_round_f16(float x) { return pl_from_f16(pl_to_f16(x)); }
PL_FN float pl_round_bf16(float x) { return pl_from_bf16(pl_to_bf16(x)); }
PL_FN float pl_sign(float x) { return (float)((x > 0.0f) - (x < 0.0f)); }
PL_FN double pl_sign(double x) { return (double)((x > 0.0) - (x < 0.0)); }
PL_FN float pl_frac(float x) { return x - truncf(x); }
PL_FN double pl_frac(double x) { return x - trunc(x); }
PL_FN float pl_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
PL_FN double pl_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
PL_FN float pl_trunc_div(float a, float b) { return truncf(a / b); }
PL_FN double pl_trunc_div(double a, double b) { return trunc(a / b); }
PL_FN float pl_remainder(float a, float b) {
  const float m = fmodf(a, b);
  return (m != 0.0f) & ((b < 0.0f) != (m < 0.0f)) ? m + b : m;
}
PL_FN double pl_remainder(double a, double b) {
  const double m = fmod(a, b);
  return (m != 0.0) & ((b < 0.0) != (m < 0.0)) ? m + b : m;
}
PL_FN float pl_floor_div(float a, float b) {
  if (b == 0.0f) return a / b;
  const float m = fmodf(a, b);
  float q = (a - m) / b;
  if ((m != 0.0f) & ((b < 0.0f) != (m < 0.0f))) q -= 1.0f;
  if (q == 0.0f) return copysignf(0.0f, a / b);
  const float f = floorf(q);
  return q - f > 0.5f ? f + 1.0f : f;
}
PL_FN double pl_floor_div(double a, double b) {
  if (b == 0.0) return a / b;
  const double m = fmod(a, b);
  double q = (a - m) / b;
  if ((m != 0.0) & ((b < 0.0) != (m < 0.0))) q -= 1.0;
  if (q == 0.0) return copysign(0.0, a / b);
  const double f = floor(q);
  return q - f > 0.5 ? f + 1.0 : f;
}
// Division by zero gives 0 and by -1 wraps: neither may trap.
PL_FN long long pl_trunc_div(long long a, long long b) {
  return b == 0 ? 0 : b == -1 ? (long long)(0ULL - (unsigned long long)a) : a / b;
}
PL_FN long long pl_fmod(long long a, long long b) { return (b == 0) | (b == -1) ? 0 : a % b; }
PL_FN long long pl_floor_div(long long a, long long b) {
  const long long q = pl_trunc_div(a, b), r = pl_fmod(a, b);
  return (r != 0) & ((r < 0) != (b < 0)) ? q - 1 : q;
}
PL_FN long long pl_remainder(long long a, long long b) {
  const long long r = pl_fmod(a, b);
  return (r != 0) & ((r < 0) != (b < 0)) ? r + b : r;
}
PL_FN long long pl_pow(long long a, long long b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0;
  unsigned long long r = 1, x = (unsigned long long)a;
  for (; b; b >>= 1, x *= x) r = (b & 1) ? r * x : r;
  return (long long)r;
}
PL_FN long long pl_shift_left(long long a, long long b, int bits) {
  return (b < 0) | (b >= bits) ? 0 : (long long)((unsigned long long)a << b);
}
PL_FN long long pl_shift_right(long long a, long long b, int bits) { return a >> ((b < 0) | (b >= bits) ? bits - 1 : b); }
PL_FN int pl_index_div(int a, int k) { return a / k - (a % k < 0); }
PL_FN long long pl_index_div(long long a, long long k) { return a / k - (a % k < 0); }
PL_FN int pl_index_mod(int a, int k) { const int r = a % k; return r < 0 ? r + k : r; }
PL_FN long long pl_index_mod(long long a, long long k) { const long long r = a % k; return r < 0 ? r + k : r; }
PL_FN float pl_fast_exp2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_exp(float x) { return pl_fast_exp2(x * 1.44269504f); }
PL_FN float pl_fast_rcp(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_sigmoid(float x) { return pl_fast_rcp(1.0f + pl_fast_exp(-x)); }
PL_FN float pl_fast_sqrt(float x) { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_tanh(float x) { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
PL_FN float pl_fast_div(float a, float b) { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
// 1 / (1 + exp(-x)), as exact as a division: of a divisor from 1 to infinity, which needs no branches. A quarter of it
// has an inverse among the normal numbers.
PL_FN float pl_full_sigmoid(float x) {
  const float d = 1.0f + expf(-x), q = 0.25f * d, r = pl_fast_rcp(q);
  return d > 0x1.fffffep+127f ? 0.0f : 0.25f * fmaf(r, fmaf(-q, r, 1.0f), r);
}
// tanh(x * in) * out; in and out are positive constants, which the compiler multiplies into the coefficients. One
// rational function of x * x, fitted to be a little above 1 where tanh rounds to 1, and cut there.
PL_FN float pl_short_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float a = pl_min(fabsf(x), (float)(9.0 / in)), u = a * a;
  float p = fmaf(u, (float)(0x1.dc8f46p-27 * first * s * s * s * s), (float)(0x1.5fcba2p-16 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.cd0046p-9 * first * s * s));
  p = fmaf(u, p, (float)(0x1.126a1cp-3 * first * s));
  p = fmaf(a * u, p, a * (float)first);
  float q = fmaf(u, (float)(0x1.ac98e2p-21 * s * s * s * s), (float)(0x1.5c3d54p-12 * s * s * s));
  q = fmaf(u, q, (float)(0x1.a94f76p-6 * s * s));
  q = fmaf(u, q, (float)(0x1.de8a5ep-2 * s));
  q = fmaf(u, q, 1.0f);
  return copysignf(pl_min(p * pl_fast_rcp(q), (float)out), x);
}
// The same for |x * in| <= 0.9.
PL_FN float pl_near_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float u = x * x;
  float p = fmaf(u, (float)(0x1.55d3845f761d5p-10 * first * s * s * s * s * s * s), (float)(-0x1.c194d2db6cb5ap-8 * first * s * s * s * s * s));
  p = fmaf(u, p, (float)(0x1.567e4fa0a67dfp-6 * first * s * s * s * s));
  p = fmaf(u, p, (float)(-0x1.b81624975fa62p-5 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.11017a7be524fp-3 * first * s * s));
  p = fmaf(u, p, (float)(-0x1.5555040969f7bp-2 * first * s));
  return fmaf(x * u, p, x * (float)first);
}
// exp(x) for |x| < 128: what x * log2(e) loses in its rounding is made good after. Results that are no normal numbers are 0.
PL_FN float pl_close_exp(float x) {
  const float t = x * 0x1.715476p+0f, lost = fmaf(x, 0x1.4ae0cp-26f, fmaf(x, 0x1.715476p+0f, -t)), e = pl_fast_exp2(t);
  return fmaf(e, lost * 0x1.62e43p-1f, e);
}
// log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|) from 0 to 1.
PL_FN float pl_short_softplus(float x) {
  const float t = pl_close_exp(pl_max(-fabsf(x), -104.0f));
  float p = fmaf(t, -0x1.b2f2e553a558fp-9f, 0x1.4b06ba860e256p-6f);
  p = fmaf(t, p, -0x1.d861c0cca1808p-5f);
  p = fmaf(t, p, 0x1.b5790f5739a7dp-4f);
  p = fmaf(t, p, -0x1.3a7a4cd213250p-3f);
  p = fmaf(t, p, 0x1.935c8d8a09bd9p-3f);
  p = fmaf(t, p, -0x1.ff26dd9e2368fp-3f);
  p = fmaf(t, p, 0x1.554def5af64c6p-2f);
  p = fmaf(t, p, -0x1.ffffd2df8e6c1p-2f);
  p = fmaf(t, p, 1.0f);
  return fmaf(t, p, pl_max(x, 0.0f));
}
// 1 + erf(x / sqrt(2)) to 2^-17, for results of 16 bits: exp(-x * x / 2) times a polynomial in 1 / (1 + 0.3 |x|), fitted to
// erfc(|x| / sqrt(2)) * exp(x * x / 2), on the side where that is small.
PL_FN float pl_narrow_normal(float x) {
  const float t = pl_fast_rcp(fmaf(fabsf(x), 0x1.333334p-2f, 1.0f));
  float p = fmaf(t, -0x1.5a7e42p-3f, 0x1.ecb12ap-2f);
  p = fmaf(t, p, -0x1.8e7d78p-4f);
  p = fmaf(t, p, 0x1.516fdap-2f);
  p = fmaf(t, p, 0x1.b50feep-3f);
  p = fmaf(t, p, 0x1.f0bdbap-3f);
  p = fmaf(t, p, -0x1.4ea82p-13f);
  const float far = p * pl_fast_exp2(x * x * -0x1.715476p-1f);
  return x < 0.0f ? far : 2.0f - far;
}
// tanh(log(1 + e)) = (e * e + 2 e) / (e * e + 2 e + 2), e = exp(x); 1 from x = 20 on.
PL_FN float pl_short_tanh_softplus(float x) {
  const float e = pl_close_exp(pl_max(pl_min(x, 20.0f), -104.0f)), n = e * (e + 2.0f);
  return n * pl_fast_rcp(n + 2.0f);
}
