#include "codegen/segments.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codegen/fold.h"

namespace planish::codegen {
namespace {

using ir::IndexExpr;

/// Bytes that what is put aside may be of what is read.
constexpr std::int64_t share_aside = 64;

struct PartGroups {
  int outer = 0, head = 0, all = 0;  ///< ends of the three groups
  explicit PartGroups(const Kernel& k) : all(static_cast<int>(k.space.extents.size())) {
    outer = all - k.inner;
    head = all - k.parts;
  }
};

void mark(const IndexExpr& e, const PartGroups& groups, SegmentLevel& level) {
  for (int v = 0; v < groups.all; ++v) {
    if (e.depends_on(v)) (v < groups.outer ? level.outer : v < groups.head ? level.head : level.within) = true;
  }
}

/// Of the loads that move along the parts, the one of the largest tensor.
const Node* main_part_load(const Kernel& kernel) {
  const PartGroups groups(kernel);
  const Node* best = nullptr;
  std::int64_t most = -1;
  for (const Node& node : kernel.nodes) {
    SegmentLevel level;
    if (node.op != Op::load) continue;
    mark(node.index, groups, level);
    const std::int64_t size = kernel.inputs[static_cast<std::size_t>(node.input)].storage_elements;
    if (level.within && size > most) most = size, best = &node;
  }
  return best;
}

/// What moves along rows begins, in every row, where vectors of `unit` elements do.
bool aligned(const IndexExpr& e, std::int64_t unit, int last) {
  if (unit <= 1) return true;
  if (e.constant_term() % unit != 0) return false;
  return std::ranges::all_of(e.terms(), [&](const auto& term) {
    return term.atom.kind == ir::Atom::Kind::variable && (term.atom.variable == last || term.coefficient % unit == 0);
  });
}

/// Memory runs along the last variable and along no outer one, and rows begin where vectors of 4 bytes do.
std::string badly_laid(const Kernel& kernel) {
  const PartGroups groups(kernel);
  const Node* main = main_part_load(kernel);
  if (main == nullptr) return "nothing that is read moves along the parts";
  const int last = groups.all - 1;
  if (main->index.coefficient_of(last) != 1) return "memory does not run along the parts";
  std::int64_t widest = 1;
  std::vector<const IndexExpr*> moving;
  for (const Node& node : kernel.nodes) {
    if (node.op != Op::load) continue;
    SegmentLevel level;
    mark(node.index, groups, level);
    if (!level.head && !level.within) continue;
    if (gathers(node)) return "a row of gathered elements";
    if (level.outer && node.index.coefficient_of(groups.outer - 1) == 1) return "memory runs along the outer variables";
    if (!level.within) continue;
    widest = std::max<std::int64_t>(widest, size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype));
    moving.push_back(&node.index);
  }
  for (const Output& output : kernel.outputs) {
    if (output.per_row || output.per_part) continue;
    if (groups.outer > 0 && output.index.coefficient_of(groups.outer - 1) == 1)
      return "memory runs along the outer variables";
    widest = std::max<std::int64_t>(widest, size_of(output.dtype));
    moving.push_back(&output.index);
  }
  constexpr std::int64_t word = 4;
  if (!std::ranges::all_of(moving, [&](const IndexExpr* e) { return aligned(*e, word / widest, last); }))
    return "rows begin within a word";
  return {};
}

}  // namespace

std::vector<SegmentLevel> segment_levels(const Kernel& kernel) {
  const PartGroups groups(kernel);
  std::vector<SegmentLevel> levels(kernel.nodes.size());
  for (std::size_t n = 0; n < levels.size(); ++n) {
    const Node& node = kernel.nodes[n];
    SegmentLevel& level = levels[n];
    if (node.op == Op::load || node.op == Op::index) {
      mark(node.index, groups, level);
      for (const auto& bound : node.where) mark(bound.e, groups, level);
    }
    if (node.op == Op::reduced) {
      const bool part = kernel.reductions[static_cast<std::size_t>(node.reduction)].part;
      level.outer = groups.outer > 0;
      level.head = part;
      (part ? level.of_part : level.of_row) = true;
    }
    for (const int a : node.args) {
      const SegmentLevel& from = levels[static_cast<std::size_t>(a)];
      level.outer |= from.outer;
      level.head |= from.head;
      level.within |= from.within;
      level.of_row |= from.of_row;
      level.of_part |= from.of_part;
    }
  }
  return levels;
}

std::int64_t part_length(const Kernel& kernel) {
  std::int64_t n = 1;
  for (std::size_t v = kernel.space.extents.size() - static_cast<std::size_t>(kernel.parts);
       v < kernel.space.extents.size(); ++v)
    n *= kernel.space.extents[v];
  return n;
}

std::int64_t parts_of_row(const Kernel& kernel) {
  return kernel.inner_extent() / std::max<std::int64_t>(1, part_length(kernel));
}

std::int64_t least_piece(const Kernel& kernel) {
  const Node* main = main_part_load(kernel);
  if (main == nullptr) return 0;
  std::int64_t bytes = 0;
  for (const Reduction& r : kernel.reductions) bytes += r.part ? size_of(r.accumulate) : 0;
  for (const Output& o : kernel.outputs) bytes += o.folded ? size_of(o.dtype) : 0;
  const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  return share_aside * whole / size_of(kernel.inputs[static_cast<std::size_t>(main->input)].dtype);
}

std::string segments_broken(const Kernel& kernel) {
  const PartGroups groups(kernel);
  if (kernel.anchor != Anchor::segmented_row || kernel.parts < 1 || kernel.parts >= kernel.inner ||
      !kernel.scans.empty())
    return "rows and parts of them are not both folded";
  const auto levels = segment_levels(kernel);
  const auto level = [&](int n) -> const SegmentLevel& { return levels[static_cast<std::size_t>(n)]; };
  bool rows = false, parts = false;
  for (const Reduction& reduction : kernel.reductions) {
    const SegmentLevel& arg = level(reduction.arg);
    if (arg.of_part) return "a reduction needs what is known of a part when all of the row is done";
    if (!reduction.part) {
      rows = true;
      continue;
    }
    parts = true;
    if (info(reduction.kind).truth || finds_position(reduction.kind)) return "parts are not folded so";
    if (!arg.within) return "a reduction of what does not move along the part";
  }
  if (!rows || !parts) return "rows and parts of them are not both folded";
  for (const Output& output : kernel.outputs) {
    SegmentLevel index;
    mark(output.index, groups, index);
    const SegmentLevel& value = level(output.node);
    if (output.per_row && (value.head || value.within || value.of_part || index.head || index.within))
      return "a row's output needs a part";
    if (output.per_part && (value.within || value.of_row || index.within)) return "a part's output needs its row";
    if (!output.per_row && !output.per_part && value.of_part) return "an element needs its part's result";
  }
  if (auto why = badly_laid(kernel); !why.empty()) return why;
  const std::int64_t piece = least_piece(kernel);
  if (part_length(kernel) % std::max<std::int64_t>(1, piece) != 0) return "parts are not of whole pieces";
  return {};
}

}  // namespace planish::codegen
