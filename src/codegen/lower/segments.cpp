#include "codegen/lower/segments.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "codegen/lower/space.h"
#include "codegen/segments.h"

namespace planish::codegen {
namespace {

using ir::IndexExpr;

bool holds(const std::vector<int>& list, int v) {
  return std::ranges::find(list, v) != list.end();
}

bool all_within(const std::vector<int>& some, const std::vector<int>& all) {
  return std::ranges::all_of(some, [&](int v) { return holds(all, v); });
}

/// Widest stride first; what `by` does not move with keeps its place in front.
void widest_first(std::vector<int>& variables, const IndexExpr& by) {
  const auto stride = [&](int v) {
    const std::int64_t c = std::abs(by.coefficient_of(v));
    return c == 0 ? std::numeric_limits<std::int64_t>::max() : c;
  };
  std::ranges::stable_sort(variables, std::ranges::greater(), stride);
}

/// The largest load that moves within the parts.
const IndexExpr* largest_load(const Kernel& kernel, const std::vector<int>& part) {
  const IndexExpr* best = nullptr;
  std::int64_t most = -1;
  for (const Node& node : kernel.nodes) {
    const auto moves = [&](int v) { return node.index.depends_on(v); };
    if (node.op != Op::load || !std::ranges::any_of(part, moves)) continue;
    const std::int64_t size = kernel.inputs[static_cast<std::size_t>(node.input)].storage_elements;
    if (size > most) most = size, best = &node.index;
  }
  return best;
}

}  // namespace

Result<std::optional<Coords>> Lowering::parted(const std::vector<bool>& used,
                                               std::span<const std::int64_t> kept_extents,
                                               std::span<const std::int64_t> reduced_extents) {
  std::vector<int> folded, row;
  std::int64_t extent = 1;
  IndexExpr linear;
  for (std::size_t v = used.size(); v-- > 0;) {
    const int variable = static_cast<int>(v);
    if (space_.extents[v] == 1) continue;
    if (holds(*inner_, variable)) row.insert(row.begin(), variable);
    if (used[v]) continue;
    folded.insert(folded.begin(), variable);
    linear = ir::add(linear, ir::scale(IndexExpr::variable(variable), extent), space_);
    extent *= space_.extents[v];
  }
  if (folded == row) return std::nullopt;
  if (all_within(row, folded)) {
    SpaceChange larger;
    larger.row = std::move(folded);
    change_ = std::move(larger);
    return fail("space", "what was folded first is a part of a row");
  }
  if (!all_within(folded, row)) return unsupported("two reductions with different rows");
  if (parts_ && *parts_ != folded) return unsupported("reductions of different parts of a row");
  if (extent != product(reduced_extents)) return unsupported("the part is not what remains of the space");
  if (product(std::span(space_.extents).first(variables_)) / extent != product(kept_extents))
    return unsupported("a reduction repeated for several parts");
  parts_ = std::move(folded);
  return unravel(linear, reduced_extents);
}

std::vector<int> split_variables(const std::vector<int>& variables, int v) {
  std::vector<int> out;
  for (const int u : variables) {
    out.push_back(u > v ? u + 1 : u);
    if (u == v) out.push_back(v + 1);
  }
  return out;
}

std::optional<Coords> leading_coords(const Lowering& low, const ir::Value& value) {
  const auto& extents = low.space().extents;
  std::size_t count = 0;
  std::int64_t reached = 1;
  while (count < extents.size() && reached < value.elements()) reached *= extents[count++];
  if (reached != value.elements()) return std::nullopt;
  IndexExpr linear;
  std::int64_t stride = 1;
  for (std::size_t v = count; v-- > 0;) {
    linear = ir::add(linear, ir::scale(IndexExpr::variable(static_cast<int>(v)), stride), low.space());
    stride *= extents[v];
  }
  return low.unravel(linear, value.shape);
}

Status order_segments(Kernel& kernel, const std::vector<int>& row, const std::vector<int>& part) {
  const IndexExpr* load = largest_load(kernel, part);
  if (load == nullptr) return unsupported("parts of what does not move with them");
  std::vector<int> order, inner;
  for (int v = 0; v < static_cast<int>(kernel.space.extents.size()); ++v) (holds(row, v) ? inner : order).push_back(v);
  widest_first(order, *load);
  widest_first(inner, *load);
  const std::size_t first = inner.size() - std::min(inner.size(), part.size());
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (holds(part, inner[i]) != (i >= first)) return unsupported("parts that do not lie along memory");
  }
  order.insert(order.end(), inner.begin(), inner.end());
  kernel.inner = static_cast<int>(inner.size());
  kernel.parts = static_cast<int>(part.size());
  kernel.anchor = Anchor::segmented_row;
  permute_variables(kernel, order);
  const int all = static_cast<int>(order.size());
  for (Output& output : kernel.outputs) {
    const auto moves = [&](int from) {
      for (int v = from; v < all; ++v) {
        if (output.index.depends_on(v)) return true;
      }
      return false;
    };
    output.per_row = !moves(all - kernel.inner);
    output.per_part = !output.per_row && !moves(all - kernel.parts);
  }
  merge_variables(kernel);
  if (auto why = segments_broken(kernel); !why.empty()) return unsupported(std::move(why));
  return {};
}

}  // namespace planish::codegen
