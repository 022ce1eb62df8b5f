#include "codegen/contraction/blocked.h"

#include <algorithm>
#include <utility>

#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/product.h"
#include "codegen/emit/expression.h"
#include "codegen/phases.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

constexpr double worth = 0.75;  // of the work without blocks

/// The factor that does not slide.
int factor_of_taps(const Contraction& c, const ImplicitOperand& implicit) {
  return implicit.operand == Operand::a ? c.second : c.first;
}

/// Multiplications that tensor cores do, rows and depth filled up, and what else takes as long.
double work_of(const Contraction& c, const ImplicitOperand& implicit, double each_place) {
  const bool taps_are_rows = implicit.operand == Operand::b;
  const std::int64_t channels = taps_are_rows ? c.rows : c.columns;
  // 16 columns take as long as 32: the rows' operand is read from shared memory all the same.
  const std::int64_t filled = taps_are_rows ? (channels + 63) / 64 * 64 : std::max<std::int64_t>(channels, 32);
  const double of_place = static_cast<double>(filled) * static_cast<double>(implicit.taps * implicit.chunks * 8);
  return (of_place + each_place) * static_cast<double>(implicit.positions()) * static_cast<double>(c.batches);
}

/// True where `factor` is nothing but a load, whose element is 0 where it is not read.
bool is_plain(const Kernel& kernel, int factor) {
  return std::ranges::all_of(printing::closure(kernel, std::vector<int>{factor}, [](int) { return false; }),
                             [&](int id) {
                               const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
                               return node.op == Op::cast || (node.op == Op::load && node.value == 0 && node.bits == 0);
                             });
}

Blocked in_blocks(const Kernel& kernel, const Contraction& c, const std::vector<ir::Bound>& taps_before,
                  const ImplicitOperand& implicit, const ImplicitDim& slide, std::int64_t by) {
  Blocked out{kernel, taps_before, slide.row + 1};
  const auto renumbered = split(out.kernel, slide.row, by, 0);
  const int block = slide.row, inside = slide.row + 1, v = slide.tap + 1;
  const auto term = [](int variable, std::int64_t coefficient) {
    return ir::IndexExpr::Term{{ir::Atom::Kind::variable, variable, 1, nullptr}, coefficient};
  };
  ir::Space space = out.kernel.space;
  space.extents[static_cast<std::size_t>(v)] = slide.stride * (by - 1) + slide.taps;
  std::vector<ir::IndexExpr> replacements;
  for (int i = 0; i < static_cast<int>(space.extents.size()); ++i)
    replacements.push_back(i == v ? ir::IndexExpr::build(0, {term(v, 1), term(inside, -slide.stride)})
                                  : ir::IndexExpr::variable(i));
  const ir::Bound tap{replacements[static_cast<std::size_t>(v)], 0, slide.taps};
  for (ir::Bound& bound : out.taps)
    bound.e = ir::substitute(ir::substitute(bound.e, renumbered, out.kernel.space), replacements, space);
  out.taps.push_back(tap);
  // What the last block reads beyond the last place's taps is nowhere.
  const ir::Bound reached{ir::IndexExpr::build(0, {term(block, slide.stride * by), term(v, 1)}), 0,
                          slide.stride * (slide.rows - 1) + slide.taps};
  const auto taps =
      printing::closure(out.kernel, std::vector<int>{factor_of_taps(c, implicit)}, [](int) { return false; });
  const auto all = printing::closure(out.kernel, std::vector<int>{c.first, c.second}, [](int) { return false; });
  for (const int id : all) {
    Node& node = out.kernel.nodes[static_cast<std::size_t>(id)];
    node.index = ir::substitute(node.index, replacements, space);
    for (ir::Bound& bound : node.where) bound.e = ir::substitute(bound.e, replacements, space);
    if (node.op == Op::load) node.where.push_back(std::ranges::find(taps, id) != taps.end() ? tap : reached);
    std::erase_if(node.where, [&](const ir::Bound& bound) { return ir::always(bound, space); });
  }
  out.kernel.space = std::move(space);
  return out;
}

/// Whether the places of a block move the factor of the taps alone, and blocks the other.
bool apart(const Kernel& kernel, const Contraction& c, const ImplicitOperand& implicit, int block) {
  const auto moves = variables_of(kernel);
  const int taps = factor_of_taps(c, implicit), other = implicit.operand == Operand::a ? c.first : c.second;
  const auto moved = [&](int node, int v) {
    return moves[static_cast<std::size_t>(node)][static_cast<std::size_t>(v)];
  };
  return !moved(taps, block) && moved(taps, block + 1) && moved(other, block) && !moved(other, block + 1);
}

}  // namespace

std::optional<Blocked> blocked(const Kernel& kernel, const Contraction& c, const std::vector<ir::Bound>& taps,
                               const std::function<Result<Contraction>(const Kernel&)>& orient, double each_place) {
  const auto whole = implicit_operand_of(kernel, c);
  if (!whole || !is_plain(kernel, factor_of_taps(c, *whole))) return std::nullopt;
  std::optional<Blocked> best;
  double least = worth * work_of(c, *whole, each_place);
  const auto try_along = [&](const ImplicitDim& slide) {
    if (slide.tap < 0 || slide.taps < 2 || slide.dilation != 1) return;
    for (const std::int64_t by : {2, 4, 8}) {
      if (slide.rows < 2 * by) return;
      Blocked tried = in_blocks(kernel, c, taps, *whole, slide, by);
      const auto parts = orient(tried.kernel);
      if (!parts || parts->batches != c.batches) continue;
      const auto implicit = implicit_operand_of(tried.kernel, *parts);
      if (!implicit || !apart(tried.kernel, *parts, *implicit, slide.row)) continue;
      const double work = work_of(*parts, *implicit, each_place);
      if (work >= least) continue;
      least = work;
      best = std::move(tried);
    }
  };
  // Along the dim that memory of the results runs along rows would be stored apart from each other: only where there is
  // no other dim.
  const auto runs = [&](const ImplicitDim& slide) { return kernel.outputs[0].index.coefficient_of(slide.row) == 1; };
  for (const ImplicitDim& slide : whole->dims) {
    if (!runs(slide)) try_along(slide);
  }
  for (const ImplicitDim& slide : whole->dims) {
    if (!best && runs(slide)) try_along(slide);
  }
  return best;
}

}  // namespace planish::codegen::contraction
