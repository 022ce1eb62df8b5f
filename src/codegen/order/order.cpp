#include "codegen/order/order.h"

#include <algorithm>
#include <limits>

#include "codegen/emit/expression.h"

namespace planish::codegen {
namespace {

std::unexpected<Error> no_order(std::string why) {
  return fail("unsupported", std::move(why));
}

/// What an element is in memory, where it was read so or rounded.
DType compared_dtype(const Kernel& kernel, int node) {
  const Node& n = kernel.nodes[static_cast<std::size_t>(node)];
  const DType before = n.op == Op::cast ? kernel.nodes[static_cast<std::size_t>(n.args[0])].dtype : n.dtype;
  return n.dtype == DType::f32 && size_of(before) == 2 && is_floating(before) ? before : n.dtype;
}

/// The node moves by itself, whatever its arguments do.
bool moves_with(const Node& node, int variable) {
  return node.index.depends_on(variable) ||
         std::ranges::any_of(node.where, [&](const ir::Bound& bound) { return bound.e.depends_on(variable); });
}

}  // namespace

bool has_ranks(const Kernel& kernel) {
  return std::ranges::any_of(kernel.reductions, [](const Reduction& r) { return ranks(r.kind); });
}

Result<RowOrder> order_of(const Kernel& kernel) {
  if (!kernel.scans.empty()) return no_order("elements by their rank beside running values");
  RowOrder out;
  const Reduction* one = nullptr;
  for (std::size_t r = 0; r < kernel.reductions.size(); ++r) {
    const Reduction& each = kernel.reductions[r];
    if (each.across || each.part) return no_order("elements by their rank beside other folds");
    if (!ranks(each.kind)) {
      if (finds_position(each.kind)) return no_order("elements by their rank beside places of others");
      out.folds.push_back(static_cast<int>(r));
      continue;
    }
    if (one != nullptr && (one->kind != each.kind || one->arg != each.arg || one->rank != each.rank))
      return no_order("elements of two orders, or of two ranks");
    one = &each;
  }
  if (one == nullptr) return no_order("no elements by their rank");
  out.arg = one->arg;
  out.dtype = compared_dtype(kernel, one->arg);
  out.descending = one->kind == ReduceKind::nth_largest;
  const auto outer = kernel.space.extents.size() - static_cast<std::size_t>(kernel.inner);
  const Node& rank = kernel.nodes[static_cast<std::size_t>(one->rank)];
  if (rank.op == Op::constant) {
    out.first = rank.bits;
  } else {
    const auto& terms = rank.index.terms();
    if (rank.op != Op::index || terms.size() != 1 || terms[0].coefficient != 1 ||
        terms[0].atom.kind != ir::Atom::Kind::variable)
      return no_order("ranks that are not counted one by one");
    out.rank = terms[0].atom.variable;
    out.first = rank.index.constant_term();
    out.count = kernel.space.extent(out.rank);
  }
  out.length = kernel.inner_extent();
  if (out.first < 0 || out.ranks() > out.length) return no_order("ranks that a row does not have");
  if (out.rank >= static_cast<int>(outer)) return no_order("ranks along the row");
  for (int v = 0; v < static_cast<int>(outer); ++v) {
    if (v == out.rank) continue;
    out.variables.push_back(v);
    out.rows *= kernel.space.extent(v);
  }
  std::vector<int> within{out.arg};
  for (const Reduction& each : kernel.reductions) {
    if (each.at >= 0) within.push_back(each.at);
    if (!ranks(each.kind)) within.push_back(each.arg);
  }
  // Folds are of whole rows, whatever the rank.
  for (const int id : printing::closure(kernel, within, [](int) { return false; })) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    if (node.op == Op::reduced) {
      if (ranks(kernel.reductions[static_cast<std::size_t>(node.reduction)].kind))
        return no_order("an order of what another has put in order");
    }
    if (out.rank >= 0 && moves_with(node, out.rank)) return no_order("rows that differ from rank to rank");
  }
  for (const Output& output : kernel.outputs) {
    if (!output.per_row) return no_order("elements by their rank beside results for each element of the row");
    if (output.writes_places()) return no_order("elements by their rank in places of another tensor");
    for (std::size_t v = outer; v < kernel.space.extents.size(); ++v) {
      if (output.index.depends_on(static_cast<int>(v)))
        return no_order("elements by their rank beside elements of the row");
    }
  }
  std::ranges::stable_sort(out.folds, {}, [&](int r) { return kernel.reductions[static_cast<std::size_t>(r)].phase; });
  return out;
}

std::int64_t longest_order(const Device& device) {
  return device.target->on_host ? std::numeric_limits<std::int32_t>::max() : longest_order_of_block;
}

Status check_order(const Kernel& kernel, std::int64_t longest) {
  PLANISH_TRY(const RowOrder order, order_of(kernel));
  // Places behind a row's end are counted in 32 bits, too.
  constexpr std::int64_t most_elements = std::int64_t{1} << 30;
  if (order.length > most_elements || order.rows > most_elements) return no_order("rows of too many elements");
  // A block has room for half as many keys of 64 bits.
  if (order.length > (order.has_wide_keys() ? longest / 2 : longest) &&
      (order.ranks() > most_ranks || !order.folds.empty()))
    return no_order("an order of rows that are longer than a schedule takes");
  return {};
}

}  // namespace planish::codegen
