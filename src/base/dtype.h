#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace planish {

/// Element types that Planish's own kernels know. Others exist in graphs as `other` and only `aten` steps touch them.
/// The last four are floats of 8 bits, by their bits of exponent and mantissa; `fnuz`: no infinities, no -0.
enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
  other,
  f8_e4m3,
  f8_e5m2,
  f8_e4m3_fnuz,
  f8_e5m2_fnuz
};

/// The name used in every document (`f32`, `bool`, `float8_e4m3fn`, …); `other` gives "other".
std::string_view name(DType dtype);
/// Inverse of name(); unknown names give nullopt (the caller decides whether that is `other` or an error).
std::optional<DType> dtype_from_name(std::string_view text);
/// Bytes an element; 0 for `other`.
int size_of(DType dtype);
bool is_floating(DType dtype);
/// f16 or bf16.
bool is_half(DType dtype);
/// A float of 8 bits.
bool is_float8(DType dtype);
/// A float of 16 or 8 bits: computed in f32, rounded where it is stored.
bool is_narrow(DType dtype);
/// Integers, not booleans.
bool is_integer(DType dtype);

}  // namespace planish
