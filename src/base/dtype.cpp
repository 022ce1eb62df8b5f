#include "base/dtype.h"

#include <array>
#include <utility>

namespace planish {
namespace {
constexpr std::array<std::pair<DType, std::string_view>, 14> names{{{DType::f64, "f64"},
                                                                    {DType::f32, "f32"},
                                                                    {DType::f16, "f16"},
                                                                    {DType::bf16, "bf16"},
                                                                    {DType::i64, "i64"},
                                                                    {DType::i32, "i32"},
                                                                    {DType::i16, "i16"},
                                                                    {DType::i8, "i8"},
                                                                    {DType::u8, "u8"},
                                                                    {DType::boolean, "bool"},
                                                                    {DType::f8_e4m3, "float8_e4m3fn"},
                                                                    {DType::f8_e5m2, "float8_e5m2"},
                                                                    {DType::f8_e4m3_fnuz, "float8_e4m3fnuz"},
                                                                    {DType::f8_e5m2_fnuz, "float8_e5m2fnuz"}}};
}  // namespace

std::string_view name(DType dtype) {
  for (const auto& [value, text] : names) {
    if (value == dtype) return text;
  }
  return "other";
}

std::optional<DType> dtype_from_name(std::string_view text) {
  for (const auto& [value, known] : names) {
    if (known == text) return value;
  }
  return std::nullopt;
}

int size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e4m3_fnuz:
    case DType::f8_e5m2_fnuz:
      return 1;
    case DType::other:
      return 0;
  }
  return 0;
}

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

bool is_float8(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f8_e4m3_fnuz ||
         dtype == DType::f8_e5m2_fnuz;
}

bool is_narrow(DType dtype) {
  return is_half(dtype) || is_float8(dtype);
}

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || is_narrow(dtype);
}

bool is_integer(DType dtype) {
  return dtype == DType::i64 || dtype == DType::i32 || dtype == DType::i16 || dtype == DType::i8 || dtype == DType::u8;
}

}  // namespace planish
