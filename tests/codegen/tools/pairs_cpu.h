// Instructions on pairs of numbers of 16 bits, and on codes of 8, of sm90/ptx.cuh.
#pragma once
#include <cmath>
#include <cstring>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

namespace cpu {
inline float value(unsigned word, int half, bool bf16) {
  const unsigned bits = half == 0 ? word & 0xffff : word >> 16;
  if (!bf16) {
    _Float16 v;
    const auto short_bits = static_cast<unsigned short>(bits);
    std::memcpy(&v, &short_bits, 2);
    return static_cast<float>(v);
  }
  const unsigned wide = bits << 16;
  float v;
  std::memcpy(&v, &wide, 4);
  return v;
}
inline u32 word_of(float v, bool bf16) {
  if (bf16) {
    if (v != v) return 0x7fff;
    u32 u;
    std::memcpy(&u, &v, 4);
    return (u + 0x7fff + (u >> 16 & 1)) >> 16;
  }
  const auto narrow = static_cast<_Float16>(v);
  unsigned short bits;
  std::memcpy(&bits, &narrow, 2);
  return bits;
}
template <typename Each>
u32 pairs(u32 a, u32 b, bool bf16, Each each) {
  return word_of(each(value(a, 0, bf16), value(b, 0, bf16)), bf16) |
         word_of(each(value(a, 1, bf16), value(b, 1, bf16)), bf16) << 16;
}
inline float of_e4m3(u32 code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const float size = exponent == 0 ? std::ldexp((float)fraction, -9) : std::ldexp((float)(8 + fraction), exponent - 10);
  const float v = (code & 127) == 127 ? NAN : size;
  return code >> 7 & 1 ? -v : v;
}
}  // namespace cpu
template <bool bf16>
u32 add_pairs(u32 a, u32 b) {
  return cpu::pairs(a, b, bf16, [](float x, float y) { return x + y; });
}
template <bool bf16>
u32 sub_pairs(u32 a, u32 b) {
  return cpu::pairs(a, b, bf16, [](float x, float y) { return x - y; });
}
template <bool bf16>
u32 mul_pairs(u32 a, u32 b) {
  return cpu::pairs(a, b, bf16, [](float x, float y) { return x * y; });
}
inline u32 pack_f16(float low, float high) {
  return cpu::word_of(low, false) | cpu::word_of(high, false) << 16;
}
inline u32 pack_bf16(float low, float high) {
  return cpu::word_of(low, true) | cpu::word_of(high, true) << 16;
}
inline u32 pair_of_e4m3(u32 codes) {
  return pack_f16(cpu::of_e4m3(codes), cpu::of_e4m3(codes >> 8));
}
inline u32 bf16_of_f16(u32 pair) {
  return pack_bf16(cpu::value(pair, 0, false), cpu::value(pair, 1, false));
}
inline u32 and_or(u32 v, u32 mask, u32 bits) {
  return (v & mask) | bits;
}
inline u32 and_xor(u32 v, u32 mask, u32 bits) {
  return (v & mask) ^ bits;
}
template <bool bf16>
u32 fma_pairs(u32 a, u32 b, u32 c) {
  u32 out = 0;
  for (int i = 0; i < 2; ++i)
    out |= cpu::word_of(std::fma(cpu::value(a, i, bf16), cpu::value(b, i, bf16), cpu::value(c, i, bf16)), bf16)
           << 16 * i;
  return out;
}
inline u32 byte_permute(u32 a, u32 b, u32 selector) {
  const u64 all = (u64)b << 32 | a;
  u32 out = 0;
  for (int i = 0; i < 4; ++i) out |= (u32)(all >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return out;
}
