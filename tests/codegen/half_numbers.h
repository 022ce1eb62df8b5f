#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

/// Numbers of 16 bits for tests: bits of bf16 or f16, without NaN and Inf.
namespace planish::codegen {

inline float of_bits(std::uint16_t x, DType dtype) {
  if (dtype == DType::bf16) {
    const std::uint32_t wide = std::uint32_t{x} << 16;
    float out;
    std::memcpy(&out, &wide, 4);
    return out;
  }
  const int exponent = x >> 10 & 31, fraction = x & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (x >> 15) != 0 ? -size : size;
}

/// A number near x, of moderate size: bf16 is cut off, f16 a multiple of 2^-9.
inline std::uint16_t to_bits(double x, DType dtype) {
  if (dtype == DType::bf16) {
    const auto narrow = static_cast<float>(x);
    std::uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    return static_cast<std::uint16_t>(bits >> 16);
  }
  const int step = static_cast<int>(std::lround(std::abs(x) * 512));
  int exponent = 0;
  while (step >> (exponent + 1) != 0) ++exponent;
  const int bits = step == 0 ? 0 : (exponent + 6) << 10 | ((step << 10 >> exponent) & 1023);
  return static_cast<std::uint16_t>((x < 0 ? 1 << 15 : 0) | bits);
}

}  // namespace planish::codegen
