#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

/// Numbers of 16 and 8 bits for tests: bits of bf16, f16, e4m3 or e5m2, without NaN and Inf.
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

inline int fraction_bits(DType dtype) {
  return dtype == DType::f8_e4m3 ? 3 : 2;
}

inline float of_code(unsigned char code, DType dtype) {
  const int bits = fraction_bits(dtype), bias = dtype == DType::f8_e4m3 ? 7 : 15;
  const int exponent = (code & 127) >> bits, fraction = code & ((1 << bits) - 1);
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - bits)
                                   : std::ldexp(static_cast<float>(fraction + (1 << bits)), exponent - bias - bits);
  return (code & 128) != 0 ? -size : size;
}

/// The one next to x towards zero, for |x| < 256.
inline unsigned char to_code(double x, DType dtype) {
  unsigned char best = 0;
  for (unsigned char code = 1; of_code(code, dtype) <= std::abs(x) && code < 120; ++code) best = code;
  return static_cast<unsigned char>((x < 0 ? 128 : 0) | best);
}

}  // namespace planish::codegen
