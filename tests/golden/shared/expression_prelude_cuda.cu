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
