#pragma once

#include <cstdint>

namespace planish {

/// How many of `b` hold `a` (neither is negative).
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// How many of `b`, which is positive, `a` holds; rounded down below zero too.
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -ceil_div(-a, b);
}

/// The least multiple of `to` that holds `value`.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return ceil_div(value, to) * to;
}

}  // namespace planish
