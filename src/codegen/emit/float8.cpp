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
  if (source.contains("_float8_")) source.insert(0, float8_functions);
  return source;
}

}  // namespace planish::codegen::printing
