#include "codegen/emit/float8.h"

#include <algorithm>

namespace planish::codegen::printing {
namespace {

// Adding 2^(24 - bias - mantissa) leaves a subnormal's units in the last places of the sum.
constexpr std::string_view float8_functions =
    R"(template <int mantissa, int bias, unsigned beyond, unsigned top, unsigned none>
__device__ __forceinline__ unsigned char pl_float8_code(float x) {
  const unsigned bits = __float_as_uint(x), m = bits & 0x7fffffffu;
  const unsigned normal = (m - ((127u - bias) << 23) + ((1u << (22 - mantissa)) - 1) + ((m >> (23 - mantissa)) & 1u)) >> (23 - mantissa);
  const unsigned unit = (unsigned)(127 + 24 - bias - mantissa) << 23;
  const unsigned small = __float_as_uint(__uint_as_float(m) + __uint_as_float(unit)) - unit;
  unsigned r = m < ((128u - bias) << 23) ? small : normal;
  r = m >= beyond ? top : r;
  r = m > 0x7f800000u ? none : r;
  const unsigned sign = (bits >> 24) & 0x80u;
  return (unsigned char)(none == 0x80u && r == 0 ? 0u : r | sign);
}
template <int mantissa, int bias, unsigned infinity, unsigned none>
__device__ __forceinline__ float pl_float8_value(unsigned char code) {
  const unsigned m = code & 0x7fu;
  unsigned bits = __float_as_uint(__uint_as_float(m << (23 - mantissa)) * __uint_as_float((unsigned)(254 - bias) << 23));
  bits = m >= infinity ? 0x7f800000u : bits;
  bits = none == 0x80u ? (code == 0x80u ? 0x7fc00000u : bits) : (m >= none ? 0x7fc00000u : bits);
  return __uint_as_float(bits | ((unsigned)(code & 0x80u) << 24));
}
__device__ __forceinline__ unsigned char pl_to_float8_e4m3fnuz(float x) { return pl_float8_code<3, 8, 0x43780000u, 0x80u, 0x80u>(x); }
__device__ __forceinline__ unsigned char pl_to_float8_e5m2fnuz(float x) { return pl_float8_code<2, 16, 0x47700000u, 0x80u, 0x80u>(x); }
__device__ __forceinline__ float pl_from_float8_e4m3fnuz(unsigned char c) { return pl_float8_value<3, 8, 0x100u, 0x80u>(c); }
__device__ __forceinline__ float pl_from_float8_e5m2fnuz(unsigned char c) { return pl_float8_value<2, 16, 0x100u, 0x80u>(c); }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
// The instruction stays at the largest number.
__device__ __forceinline__ unsigned char pl_to_float8_e4m3fn(float x) {
  unsigned short r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x));
  return (unsigned char)(fabsf(x) > 464.0f ? (r | 0x7fu) : r);
}
__device__ __forceinline__ unsigned char pl_to_float8_e5m2(float x) {
  unsigned short r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x));
  return (unsigned char)(fabsf(x) >= 61440.0f ? ((r & 0x80u) | 0x7cu) : r);
}
__device__ __forceinline__ float pl_from_float8_e4m3fn(unsigned char c) {
  unsigned pair;
  float r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)c));
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)pair));
  return r;
}
__device__ __forceinline__ float pl_from_float8_e5m2(unsigned char c) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)(c << 8)));
  return r;
}
#else
__device__ __forceinline__ unsigned char pl_to_float8_e4m3fn(float x) { return pl_float8_code<3, 7, 0x43e80001u, 0x7fu, 0x7fu>(x); }
__device__ __forceinline__ unsigned char pl_to_float8_e5m2(float x) { return pl_float8_code<2, 15, 0x47700000u, 0x7cu, 0x7fu>(x); }
__device__ __forceinline__ float pl_from_float8_e4m3fn(unsigned char c) { return pl_float8_value<3, 7, 0x100u, 0x7fu>(c); }
__device__ __forceinline__ float pl_from_float8_e5m2(unsigned char c) { return pl_float8_value<2, 15, 0x7cu, 0x7du>(c); }
#endif
)";

}  // namespace

bool has_float8(const Kernel& kernel) {
  return std::ranges::any_of(kernel.nodes, [](const Node& node) { return is_float8(node.dtype); }) ||
         std::ranges::any_of(kernel.inputs, is_float8, &Input::dtype) ||
         std::ranges::any_of(kernel.outputs, is_float8, &Output::dtype);
}

std::string_view float8_prelude() {
  return float8_functions;
}

std::string with_float8(std::string source) {
  if (source.contains("__global__") && source.contains("_float8_")) source.insert(0, float8_functions);
  return source;
}

}  // namespace planish::codegen::printing

namespace planish::codegen {
namespace {

constexpr std::string_view float8_of_vectors = R"TEXT(//@ float8
// Adding 2^(24 - bias - mantissa) leaves a subnormal's units in the last places of the sum.
template <int mantissa, int bias, int beyond, int top, int none, class V> FN typename Of<V>::I float8_code(V x) {
  typedef typename Of<V>::I I;
  const I b = bits(x), m = b & 0x7fffffff, zero = I{};
  const I normal = (m - ((127 - bias) << 23) + ((1 << (22 - mantissa)) - 1) + ((m >> (23 - mantissa)) & 1)) >> (23 - mantissa);
  constexpr int unit = (127 + 24 - bias - mantissa) << 23;
  const I small = bits(from<V>(m) + __builtin_bit_cast(float, unit)) - unit;
  I r = m < ((128 - bias) << 23) ? small : normal;
  r = m >= beyond ? zero + top : r;
  r = m > 0x7f800000 ? zero + none : r;
  const I sign = (b >> 24) & 0x80;
  if constexpr (none == 0x80) return r == 0 ? zero : r | sign;
  return r | sign;
}
template <int mantissa, int bias, int infinity, int none, class V> FN V float8_value(typename Of<V>::I c) {
  typedef typename Of<V>::I I;
  const I m = c & 0x7f, zero = I{};
  I b = bits(from<V>(I(m << (23 - mantissa))) * __builtin_bit_cast(float, (254 - bias) << 23));
  b = m >= infinity ? zero + 0x7f800000 : b;
  if constexpr (none == 0x80) b = c == 0x80 ? zero + 0x7fc00000 : b;
  else b = m >= none ? zero + 0x7fc00000 : b;
  return from<V>(I(b | ((c & 0x80) << 24)));
}
//@ float8_e4m3fn float8
FN vf widen_float8_e4m3fn(vi c) { return float8_value<3, 7, 0x100, 0x7f, vf>(c); }
FN float widen_float8_e4m3fn(int c) { return float8_value<3, 7, 0x100, 0x7f, float>(c); }
FN vi narrow_float8_e4m3fn(vf x) { return float8_code<3, 7, 0x43e80001, 0x7f, 0x7f>(x); }
FN int narrow_float8_e4m3fn(float x) { return float8_code<3, 7, 0x43e80001, 0x7f, 0x7f>(x); }
FN vf round_float8_e4m3fn(vf x) { return widen_float8_e4m3fn(narrow_float8_e4m3fn(x)); }
FN float round_float8_e4m3fn(float x) { return widen_float8_e4m3fn(narrow_float8_e4m3fn(x)); }
//@ load_float8_e4m3fn float8_e4m3fn load_u8
FN vf load_float8_e4m3fn(const unsigned char* p) { return widen_float8_e4m3fn(load_u8(p)); }
FN vf load_float8_e4m3fn(const unsigned char* p, int n) { return widen_float8_e4m3fn(load_u8(p, n)); }
FN float one_float8_e4m3fn(const unsigned char* p) { return widen_float8_e4m3fn(one_u8(p)); }
//@ store_float8_e4m3fn float8_e4m3fn store_u8
FN void store_float8_e4m3fn(unsigned char* p, vf v) { store_u8(p, narrow_float8_e4m3fn(v)); }
FN void store_float8_e4m3fn(unsigned char* p, vf v, int n) { store_u8(p, narrow_float8_e4m3fn(v), n); }
FN void put_float8_e4m3fn(unsigned char* p, float v) { put_u8(p, narrow_float8_e4m3fn(v)); }
//@ float8_e5m2 float8
FN vf widen_float8_e5m2(vi c) { return float8_value<2, 15, 0x7c, 0x7d, vf>(c); }
FN float widen_float8_e5m2(int c) { return float8_value<2, 15, 0x7c, 0x7d, float>(c); }
FN vi narrow_float8_e5m2(vf x) { return float8_code<2, 15, 0x47700000, 0x7c, 0x7f>(x); }
FN int narrow_float8_e5m2(float x) { return float8_code<2, 15, 0x47700000, 0x7c, 0x7f>(x); }
FN vf round_float8_e5m2(vf x) { return widen_float8_e5m2(narrow_float8_e5m2(x)); }
FN float round_float8_e5m2(float x) { return widen_float8_e5m2(narrow_float8_e5m2(x)); }
//@ load_float8_e5m2 float8_e5m2 load_u8
FN vf load_float8_e5m2(const unsigned char* p) { return widen_float8_e5m2(load_u8(p)); }
FN vf load_float8_e5m2(const unsigned char* p, int n) { return widen_float8_e5m2(load_u8(p, n)); }
FN float one_float8_e5m2(const unsigned char* p) { return widen_float8_e5m2(one_u8(p)); }
//@ store_float8_e5m2 float8_e5m2 store_u8
FN void store_float8_e5m2(unsigned char* p, vf v) { store_u8(p, narrow_float8_e5m2(v)); }
FN void store_float8_e5m2(unsigned char* p, vf v, int n) { store_u8(p, narrow_float8_e5m2(v), n); }
FN void put_float8_e5m2(unsigned char* p, float v) { put_u8(p, narrow_float8_e5m2(v)); }
//@ float8_e4m3fnuz float8
FN vf widen_float8_e4m3fnuz(vi c) { return float8_value<3, 8, 0x100, 0x80, vf>(c); }
FN float widen_float8_e4m3fnuz(int c) { return float8_value<3, 8, 0x100, 0x80, float>(c); }
FN vi narrow_float8_e4m3fnuz(vf x) { return float8_code<3, 8, 0x43780000, 0x80, 0x80>(x); }
FN int narrow_float8_e4m3fnuz(float x) { return float8_code<3, 8, 0x43780000, 0x80, 0x80>(x); }
FN vf round_float8_e4m3fnuz(vf x) { return widen_float8_e4m3fnuz(narrow_float8_e4m3fnuz(x)); }
FN float round_float8_e4m3fnuz(float x) { return widen_float8_e4m3fnuz(narrow_float8_e4m3fnuz(x)); }
//@ load_float8_e4m3fnuz float8_e4m3fnuz load_u8
FN vf load_float8_e4m3fnuz(const unsigned char* p) { return widen_float8_e4m3fnuz(load_u8(p)); }
FN vf load_float8_e4m3fnuz(const unsigned char* p, int n) { return widen_float8_e4m3fnuz(load_u8(p, n)); }
FN float one_float8_e4m3fnuz(const unsigned char* p) { return widen_float8_e4m3fnuz(one_u8(p)); }
//@ store_float8_e4m3fnuz float8_e4m3fnuz store_u8
FN void store_float8_e4m3fnuz(unsigned char* p, vf v) { store_u8(p, narrow_float8_e4m3fnuz(v)); }
FN void store_float8_e4m3fnuz(unsigned char* p, vf v, int n) { store_u8(p, narrow_float8_e4m3fnuz(v), n); }
FN void put_float8_e4m3fnuz(unsigned char* p, float v) { put_u8(p, narrow_float8_e4m3fnuz(v)); }
//@ float8_e5m2fnuz float8
FN vf widen_float8_e5m2fnuz(vi c) { return float8_value<2, 16, 0x100, 0x80, vf>(c); }
FN float widen_float8_e5m2fnuz(int c) { return float8_value<2, 16, 0x100, 0x80, float>(c); }
FN vi narrow_float8_e5m2fnuz(vf x) { return float8_code<2, 16, 0x47700000, 0x80, 0x80>(x); }
FN int narrow_float8_e5m2fnuz(float x) { return float8_code<2, 16, 0x47700000, 0x80, 0x80>(x); }
FN vf round_float8_e5m2fnuz(vf x) { return widen_float8_e5m2fnuz(narrow_float8_e5m2fnuz(x)); }
FN float round_float8_e5m2fnuz(float x) { return widen_float8_e5m2fnuz(narrow_float8_e5m2fnuz(x)); }
//@ load_float8_e5m2fnuz float8_e5m2fnuz load_u8
FN vf load_float8_e5m2fnuz(const unsigned char* p) { return widen_float8_e5m2fnuz(load_u8(p)); }
FN vf load_float8_e5m2fnuz(const unsigned char* p, int n) { return widen_float8_e5m2fnuz(load_u8(p, n)); }
FN float one_float8_e5m2fnuz(const unsigned char* p) { return widen_float8_e5m2fnuz(one_u8(p)); }
//@ store_float8_e5m2fnuz float8_e5m2fnuz store_u8
FN void store_float8_e5m2fnuz(unsigned char* p, vf v) { store_u8(p, narrow_float8_e5m2fnuz(v)); }
FN void store_float8_e5m2fnuz(unsigned char* p, vf v, int n) { store_u8(p, narrow_float8_e5m2fnuz(v), n); }
FN void put_float8_e5m2fnuz(unsigned char* p, float v) { put_u8(p, narrow_float8_e5m2fnuz(v)); }
)TEXT";

}  // namespace

std::string_view float8_sections() {
  return float8_of_vectors;
}

}  // namespace planish::codegen
