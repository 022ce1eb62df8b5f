#include <string>

#include "codegen/emit/expression.h"

namespace planish::codegen::printing {
namespace {

constexpr const char* cuda_head = R"(#define PL_FN __device__ __forceinline__
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
)";

constexpr const char* cpp_head = R"(#define PL_FN static inline
#define PL_INF_F32 __builtin_inff()
#define PL_NAN_F32 __builtin_nanf("")
#define PL_INF_F64 __builtin_inf()
#define PL_NAN_F64 __builtin_nan("")
PL_FN float pl_bits_float(unsigned x) { float r; __builtin_memcpy(&r, &x, 4); return r; }
PL_FN unsigned pl_float_bits(float x) { unsigned r; __builtin_memcpy(&r, &x, 4); return r; }
PL_FN float pl_from_f16(unsigned short x) {
  const unsigned sign = (unsigned)(x & 0x8000) << 16, rest = (unsigned)(x & 0x7fff) << 13;
  // Multiplying by 2^112 moves the exponent bias and normalises subnormals; Inf and NaN need the top exponent set again.
  const float scaled = pl_bits_float(rest) * 0x1p112f;
  const unsigned big = rest >= (0x7c00u << 13) ? 0x7f800000u : 0u;
  return pl_bits_float(pl_float_bits(scaled) | big | sign);
}
PL_FN unsigned short pl_to_f16(float x) {
  const unsigned bits = pl_float_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  const unsigned normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const unsigned small = pl_float_bits(pl_bits_float(magnitude) + 0.5f) - 0x3f000000u;
  const unsigned r = magnitude > 0x7f800000u ? 0x7e00u : magnitude >= 0x47800000u ? 0x7c00u : magnitude < 0x38800000u ? small : normal;
  return (unsigned short)(r | sign);
}
PL_FN float pl_from_bf16(unsigned short x) { return pl_bits_float((unsigned)x << 16); }
PL_FN unsigned short pl_to_bf16(float x) {
  const unsigned bits = pl_float_bits(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (unsigned short)(x != x ? 0x7fc0u : rounded);
}
PL_FN float pl_max(float a, float b) { return (a > b) | (a != a) ? a : b; }
PL_FN float pl_min(float a, float b) { return (a < b) | (a != a) ? a : b; }
PL_FN float pl_rsqrt(float x) { return 1.0f / sqrtf(x); }
PL_FN double pl_rsqrt(double x) { return 1.0 / sqrt(x); }
)";

constexpr const char* common_text = R"(PL_FN double pl_max(double a, double b) { return (a > b) | (a != a) ? a : b; }
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
)";

}  // namespace

std::string_view prelude(bool cuda) {
  static const std::string cuda_text = std::string(cuda_head) + common_text;
  static const std::string cpp_text = std::string(cpp_head) + common_text;
  return cuda ? cuda_text : cpp_text;
}

}  // namespace planish::codegen::printing
