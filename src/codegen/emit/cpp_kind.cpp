#include "codegen/emit/cpp_kind.h"

#include <array>
#include <cstddef>

namespace planish::codegen::cpp {
namespace {

/// In the order of Anchor.
constexpr std::array<CppKind, 7> kinds{{
    // lanes, chunks, splits, buffers, panels, in_order, column_states, early_stores
    {Lanes::anywhere, true, false, false, false, false, false, false},    // pointwise
    {Lanes::anywhere, false, true, true, true, false, false, true},       // row
    {Lanes::rows_or_last, false, true, true, false, true, false, false},  // scan
    {Lanes::neighbours, false, false, false, false, false, true, false},  // row_and_column
    {Lanes::neighbours, false, true, true, false, false, false, false},   // segmented_row
    {Lanes::anywhere, false, true, true, false, false, false, false},     // contraction
    {Lanes::anywhere, false, false, false, false, false, false, false},   // attention: none
}};
static_assert(static_cast<std::size_t>(Anchor::attention) + 1 == kinds.size());

}  // namespace

const CppKind& cpp_kind(const Kernel& kernel) {
  return kinds[static_cast<std::size_t>(kernel.anchor)];
}

}  // namespace planish::codegen::cpp
