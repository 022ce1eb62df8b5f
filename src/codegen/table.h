#pragma once

#include <array>
#include <cstddef>

/// What tables by kind are checked for when they are compiled.
namespace planish::codegen {

/// Whether each row of a table stands at the place of its kind: so rows are found.
template <typename Row, std::size_t count, typename Kind>
constexpr bool in_order(const std::array<Row, count>& rows, Kind Row::* kind) {
  for (std::size_t i = 0; i < count; ++i) {
    if (rows[i].*kind != static_cast<Kind>(i)) return false;
  }
  return true;
}

/// Whether the rows' numbers are 0, 1, … in some order.
template <typename Row, std::size_t count>
constexpr bool numbered(const std::array<Row, count>& rows, int Row::* number) {
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t found = 0;
    for (const Row& row : rows) found += row.*number == static_cast<int>(i) ? 1 : 0;
    if (found != 1) return false;
  }
  return true;
}

}  // namespace planish::codegen
