#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "codegen/kernel.h"

/// A plain interpreter of Kernel, in double precision, one point at a time: the meaning that emitted code is compared
/// with.
namespace planish::codegen::testing {

/// Floating nodes use f, integer and boolean ones i.
struct Value {
  double f = 0;
  std::int64_t i = 0;
};

using Bytes = std::vector<unsigned char>;

inline float widen_bf16(std::uint16_t h) {
  const std::uint32_t b = static_cast<std::uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}
inline std::uint16_t narrow_bf16(float f) {
  std::uint32_t b;
  std::memcpy(&b, &f, 4);
  if (std::isnan(f)) return 0x7fc0;
  return static_cast<std::uint16_t>((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

template <class T>
T element(const Bytes& data, std::int64_t at) {
  T t;
  std::memcpy(&t, data.data() + static_cast<std::size_t>(at) * sizeof(T), sizeof(T));
  return t;
}
template <class T>
void put(Bytes& data, std::int64_t at, T t) {
  std::memcpy(data.data() + static_cast<std::size_t>(at) * sizeof(T), &t, sizeof(T));
}

inline Value read(DType t, const Bytes& d, std::int64_t at) {
  switch (t) {
    case DType::f64:
      return {element<double>(d, at), 0};
    case DType::f32:
      return {element<float>(d, at), 0};
    case DType::f16:
      return {static_cast<double>(static_cast<float>(element<_Float16>(d, at))), 0};
    case DType::bf16:
      return {widen_bf16(element<std::uint16_t>(d, at)), 0};
    case DType::i64:
      return {0, element<std::int64_t>(d, at)};
    case DType::i32:
      return {0, element<std::int32_t>(d, at)};
    case DType::i16:
      return {0, element<std::int16_t>(d, at)};
    case DType::i8:
      return {0, element<std::int8_t>(d, at)};
    case DType::u8:
      return {0, element<std::uint8_t>(d, at)};
    default:
      return {0, element<std::uint8_t>(d, at) != 0};
  }
}
inline void write(DType t, Bytes& d, std::int64_t at, Value v) {
  switch (t) {
    case DType::f64:
      return put(d, at, v.f);
    case DType::f32:
      return put(d, at, static_cast<float>(v.f));
    case DType::f16:
      return put(d, at, static_cast<_Float16>(static_cast<float>(v.f)));
    case DType::bf16:
      return put(d, at, narrow_bf16(static_cast<float>(v.f)));
    case DType::i64:
      return put(d, at, v.i);
    case DType::i32:
      return put(d, at, static_cast<std::int32_t>(v.i));
    case DType::i16:
      return put(d, at, static_cast<std::int16_t>(v.i));
    case DType::i8:
      return put(d, at, static_cast<std::int8_t>(v.i));
    case DType::u8:
      return put(d, at, static_cast<std::uint8_t>(v.i));
    default:
      return put(d, at, static_cast<std::uint8_t>(v.i != 0));
  }
}

struct Interpreter {
  /// `inputs` hold the raw elements of each input's storage; the result those of each output's.
  static std::vector<Bytes> run(const Kernel& k, const std::vector<Bytes>& inputs);
};

/// Random elements for every input; with `specials`, one in 97 floating ones is NaN, Inf, -0, large or tiny (squares
/// stay within fp32).
inline std::vector<Bytes> random_inputs(const Kernel& k, std::uint64_t seed, bool specials) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  const double odd[] = {std::nan(""), INFINITY, -INFINITY, -0.0, 1e15, -1e15, 1e-40};
  std::vector<Bytes> out;
  for (const auto& in : k.inputs) {
    Bytes data(static_cast<std::size_t>(std::max<std::int64_t>(0, in.storage_elements)) *
               static_cast<std::size_t>(size_of(in.dtype)));
    for (std::int64_t i = 0; i < in.storage_elements; ++i) {
      Value v{normal(rng), static_cast<std::int64_t>(rng() % 41) - 20};
      if (specials && rng() % 97 == 0) v.f = odd[rng() % 7];
      if (in.dtype == DType::boolean) v.i &= 1;
      write(in.dtype, data, i, v);
    }
    out.push_back(std::move(data));
  }
  return out;
}

}  // namespace planish::codegen::testing
