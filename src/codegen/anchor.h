#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codegen/table.h"

/// The kinds of kernels, as partition and lowering tell them apart: a kind is its line and its row here. What there is
/// to know of how one runs says its template (templates/template.h).
namespace planish::codegen {

enum class Anchor : std::uint8_t {
  pointwise,  ///< every output has one element for each point of the space
  row,   ///< some variables (the inner ones) are reduced; outputs live on all points or on the outer variables only
  scan,  ///< a row kernel with running values along the inner variables
  row_and_column,  ///< a row kernel that folds across its rows as well (see row_and_column.h)
  segmented_row,   ///< a row kernel that folds parts of its rows as well (see segments.h)
  contraction,     ///< a row kernel whose one fold is a sum of products of two factors (see contraction/contraction.h)
  attention,       ///< a product along rows whose elements are made of another product's (see attention/attention.h)
  recurrence,      ///< a recurrent network, by itself (see recurrence.h)
  scatter,         ///< a pointwise kernel that writes some places of tensors, which keep what they hold elsewhere
  order,           ///< elements of rows by their rank (see order/order.h)
};

struct AnchorInfo {
  Anchor kind;
  std::string_view name;  ///< in messages and in what is stored
  int key;                ///< in the keys of stored kernels: a new kind has the next, none is ever changed
};

namespace table_of_anchors {

// clang-format off
inline constexpr std::array all{
    AnchorInfo{Anchor::pointwise, "pointwise", 0},
    AnchorInfo{Anchor::row, "row", 1},
    AnchorInfo{Anchor::scan, "scan", 2},
    AnchorInfo{Anchor::row_and_column, "row_and_column", 3},
    AnchorInfo{Anchor::segmented_row, "segmented_row", 4},
    AnchorInfo{Anchor::contraction, "contraction", 5},
    AnchorInfo{Anchor::attention, "attention", 6},
    AnchorInfo{Anchor::recurrence, "recurrence", 7},
    AnchorInfo{Anchor::scatter, "scatter", 8},
    AnchorInfo{Anchor::order, "order", 9},
};
// clang-format on
static_assert(in_order(all, &AnchorInfo::kind) && numbered(all, &AnchorInfo::key));

}  // namespace table_of_anchors

constexpr const AnchorInfo& info(Anchor kind) {
  return table_of_anchors::all[static_cast<std::size_t>(kind)];
}

}  // namespace planish::codegen
