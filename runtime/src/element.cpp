#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "document.h"

namespace planish::rt {
namespace {

/// Rounds to nearest even. The detour over float can round twice, which no value of a `set` step in practice shows.
std::uint16_t to_f16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14) {  // subnormal: units of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24)));
  }
  const std::uint32_t rounded = (bits & 0x7fffffffu) + 0xfffu + ((bits >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

std::uint16_t to_bf16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <typename T>
bool put(T value, std::array<unsigned char, 8>* out) {
  std::memcpy(out->data(), &value, sizeof value);
  return true;
}

template <typename T>
bool put_integer(double value, std::array<unsigned char, 8>* out) {
  const double lo = static_cast<double>(std::numeric_limits<T>::min());
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);  // first value too large
  if (!(value >= lo && value < end) || std::trunc(value) != value) return false;
  return put(static_cast<T>(value), out);
}

}  // namespace

std::int64_t dtype_bytes(std::string_view dtype) {
  if (dtype == "f64" || dtype == "i64" || dtype == "complex64" || dtype == "uint64") return 8;
  if (dtype == "f32" || dtype == "i32" || dtype == "uint32" || dtype == "complex32") return 4;
  if (dtype == "f16" || dtype == "bf16" || dtype == "i16" || dtype == "uint16") return 2;
  if (dtype == "i8" || dtype == "u8" || dtype == "bool" || dtype.starts_with("float8_")) return 1;
  if (dtype == "complex128") return 16;
  return 0;
}

bool parse_hex_float(std::string_view text, double* out) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  if (text == "inf") {
    value = std::numeric_limits<double>::infinity();
  } else if (text == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (!text.starts_with("0x") || text.size() == 2 || text[2] == '-') return false;
    text.remove_prefix(2);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::hex);
    if (error != std::errc() || end != text.data() + text.size()) return false;
  }
  *out = negative ? -value : value;
  return true;
}

bool encode_element(std::string_view dtype, double value, std::array<unsigned char, 8>* out) {
  out->fill(0);
  if (dtype == "f64") return put(value, out);
  if (dtype == "f32") return put(static_cast<float>(value), out);
  if (dtype == "f16") return put(to_f16(value), out);
  if (dtype == "bf16") return put(to_bf16(value), out);
  if (dtype == "i64") return put_integer<std::int64_t>(value, out);
  if (dtype == "i32") return put_integer<std::int32_t>(value, out);
  if (dtype == "i16") return put_integer<std::int16_t>(value, out);
  if (dtype == "i8") return put_integer<std::int8_t>(value, out);
  if (dtype == "u8") return put_integer<std::uint8_t>(value, out);
  if (dtype == "bool") return (value == 0 || value == 1) && put(static_cast<std::uint8_t>(value), out);
  return false;
}

}  // namespace planish::rt
