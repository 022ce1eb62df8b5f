#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace planish {

/// Element types that Planish's own kernels know. Others exist in graphs as `other` and only `aten` steps touch them.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean, other };

/// The name used in every document (`f32`, `bool`, …); `other` gives "other".
std::string_view name(DType dtype);
/// Inverse of name(); unknown names give nullopt (the caller decides whether that is `other` or an error).
std::optional<DType> dtype_from_name(std::string_view text);
/// Bytes an element; 0 for `other`.
int size_of(DType dtype);
bool is_floating(DType dtype);
/// f16 or bf16.
bool is_half(DType dtype);
/// Integers, not booleans.
bool is_integer(DType dtype);

}  // namespace planish
