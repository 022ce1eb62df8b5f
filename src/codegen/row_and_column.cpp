#include "codegen/row_and_column.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace planish::codegen {
namespace {

using ir::IndexExpr;

struct Groups {
  int common = 0, outer = 0, all = 0;  ///< ends of the three groups
  explicit Groups(const Kernel& k) : all(static_cast<int>(k.space.extents.size())) {
    outer = all - k.inner;
    common = outer - k.across;
  }
};

void look(const IndexExpr& e, const Groups& groups, RowColumnLevel& level) {
  for (int v = 0; v < groups.all; ++v) {
    if (!e.depends_on(v)) continue;
    (v < groups.common ? level.common : v < groups.outer ? level.across : level.inner) = true;
  }
}

std::vector<bool> needed_by(const Kernel& kernel, const std::vector<int>& roots) {
  std::vector<bool> needed(kernel.nodes.size(), false);
  for (const int r : roots) needed[static_cast<std::size_t>(r)] = true;
  for (std::size_t n = needed.size(); n-- > 0;) {
    if (!needed[n]) continue;
    for (const int a : kernel.nodes[n].args) needed[static_cast<std::size_t>(a)] = true;
  }
  return needed;
}

/// Loads of one input in two orders would read it twice, once of them against the grain.
bool reads_twice(const Kernel& kernel, const std::vector<RowColumnLevel>& levels) {
  std::vector<const Node*> seen;
  for (std::size_t n = 0; n < levels.size(); ++n) {
    const Node& node = kernel.nodes[n];
    if (node.op != Op::load || gathers(node) || !levels[n].across || !levels[n].inner) continue;
    for (const Node* other : seen) {
      if (other->input != node.input) continue;
      const IndexExpr gap = ir::add(other->index, ir::scale(node.index, -1), kernel.space);
      if (!gap.is_constant()) return true;
    }
    seen.push_back(&node);
  }
  return false;
}

/// True where the elements' largest load runs along memory in the last inner variable.
bool runs_along(const Kernel& kernel, const std::vector<RowColumnLevel>& levels) {
  const IndexExpr* main = nullptr;
  std::int64_t most = -1;
  for (std::size_t n = 0; n < levels.size(); ++n) {
    const Node& node = kernel.nodes[n];
    if (node.op != Op::load || !levels[n].across || !levels[n].inner) continue;
    const std::int64_t size = kernel.inputs[static_cast<std::size_t>(node.input)].storage_elements;
    if (size > most) most = size, main = &node.index;
  }
  if (main == nullptr) return false;
  const Groups groups(kernel);
  std::int64_t inner = std::numeric_limits<std::int64_t>::max(), across = inner;
  for (const auto& term : main->terms()) {
    if (term.atom.kind != ir::Atom::Kind::variable) continue;
    auto& least = term.atom.variable >= groups.outer ? inner : across;
    least = std::min(least, std::abs(term.coefficient));
  }
  return inner < across;
}

}  // namespace

std::vector<RowColumnLevel> row_column_levels(const Kernel& kernel) {
  const Groups groups(kernel);
  std::vector<RowColumnLevel> levels(kernel.nodes.size());
  for (std::size_t n = 0; n < levels.size(); ++n) {
    const Node& node = kernel.nodes[n];
    RowColumnLevel& level = levels[n];
    if (node.op == Op::load || node.op == Op::index) {
      look(node.index, groups, level);
      for (const auto& bound : node.where) look(bound.e, groups, level);
    }
    if (node.op == Op::reduced) {
      const bool across = kernel.reductions[static_cast<std::size_t>(node.reduction)].across;
      level.common = groups.common > 0;
      (across ? level.inner : level.across) = true;
      (across ? level.of_column : level.of_row) = true;
    }
    for (const int a : node.args) {
      const RowColumnLevel& from = levels[static_cast<std::size_t>(a)];
      level.common |= from.common;
      level.across |= from.across;
      level.inner |= from.inner;
      level.of_row |= from.of_row;
      level.of_column |= from.of_column;
    }
  }
  return levels;
}

std::vector<RowColumnPair> row_column_pairs(const Kernel& kernel, bool across) {
  std::vector<RowColumnPair> out;
  const auto levels = row_column_levels(kernel);
  const JointInfo& joint = info(JointKind::exponentials);
  const auto node_at = [&](int n) -> const Node& { return kernel.nodes[static_cast<std::size_t>(n)]; };
  for (std::size_t f = 0; f < kernel.reductions.size(); ++f) {
    const Reduction& follower = kernel.reductions[f];
    if (follower.across != across || follower.phase != 1 || follower.kind != joint.follower ||
        follower.accumulate != DType::f32)
      continue;
    const Node& exponential = node_at(follower.arg);
    if (exponential.op != joint.of || exponential.dtype == DType::f64) continue;
    const Node& difference = node_at(exponential.args[0]);
    if (difference.op != Op::sub || difference.dtype == DType::f64) continue;
    RowColumnPair pair;
    pair.follower = static_cast<int>(f);
    pair.x = difference.args[0];
    pair.base = difference.args[1];
    // The base is made of its leader and constants.
    const auto needed = needed_by(kernel, {pair.base});
    int leader = -1;
    bool alone = true;
    for (std::size_t n = 0; n < needed.size(); ++n) {
      const Node& node = kernel.nodes[n];
      if (!needed[n]) continue;
      alone = alone && node.op != Op::load && node.op != Op::index;
      if (node.op != Op::reduced) continue;
      alone = alone && (leader < 0 || leader == node.reduction);
      leader = node.reduction;
    }
    if (leader < 0 || !alone) continue;
    const Reduction& first = kernel.reductions[static_cast<std::size_t>(leader)];
    if (first.across != across || first.phase != 0 || first.kind != joint.leader || first.arg != pair.x ||
        first.accumulate != DType::f32 || std::ranges::find(out, leader, &RowColumnPair::leader) != out.end())
      continue;
    pair.leader = leader;
    out.push_back(pair);
  }
  return out;
}

bool needs_whole_rows(const Kernel& kernel) {
  const auto levels = row_column_levels(kernel);
  const auto pairs = row_column_pairs(kernel, false);
  for (std::size_t r = 0; r < kernel.reductions.size(); ++r) {
    const Reduction& reduction = kernel.reductions[r];
    const bool follows = std::ranges::find(pairs, static_cast<int>(r), &RowColumnPair::follower) != pairs.end();
    if (!follows && levels[static_cast<std::size_t>(reduction.arg)].of_row) return true;
  }
  return std::ranges::any_of(kernel.outputs, [&](const Output& output) {
    return !output.per_row && !output.per_column && levels[static_cast<std::size_t>(output.node)].of_row;
  });
}

int column_words(const Kernel& kernel) {
  int words = 0;
  for (const Reduction& r : kernel.reductions) {
    if (r.across) words += r.accumulate == DType::f64 || r.accumulate == DType::i64 ? 2 : 1;
  }
  return words;
}

int element_words(const Kernel& kernel) {
  const auto levels = row_column_levels(kernel);
  int words = 0;
  for (std::size_t n = 0; n < levels.size(); ++n) {
    const Node& node = kernel.nodes[n];
    if (node.op == Op::load && levels[n].inner && levels[n].across)
      words += (size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype) + 3) / 4;
  }
  return words;
}

std::string row_column_broken(const Kernel& kernel) {
  const Groups groups(kernel);
  if (kernel.anchor != Anchor::row_and_column || kernel.across < 1 || kernel.inner < 1 || groups.common < 0)
    return "rows and columns are not both folded";
  const auto levels = row_column_levels(kernel);
  const auto level = [&](int n) -> const RowColumnLevel& { return levels[static_cast<std::size_t>(n)]; };
  const auto pairs = row_column_pairs(kernel, true);
  bool along = false, across = false;
  for (std::size_t r = 0; r < kernel.reductions.size(); ++r) {
    const Reduction& reduction = kernel.reductions[r];
    (reduction.across ? across : along) = true;
    if (finds_position(reduction.kind)) return "positions are not looked for both ways";
    const bool follows = std::ranges::find(pairs, static_cast<int>(r), &RowColumnPair::follower) != pairs.end();
    const RowColumnLevel& arg = level(reduction.arg);
    if (arg.of_column && !follows) return "a reduction needs what is known of a column when all rows are done";
    if (!arg.inner || !arg.across) return "a reduction of what does not move with rows and columns";
  }
  if (!along && !across) return "nothing is folded";
  if (!across) return "nothing is folded across the rows";
  for (const Output& output : kernel.outputs) {
    RowColumnLevel index;
    look(output.index, groups, index);
    const RowColumnLevel& value = level(output.node);
    if (output.per_row && output.per_column) return "an output of neither rows nor columns";
    if (output.per_row && (value.inner || value.of_column || index.inner)) return "a row's output needs a column";
    if (output.per_column && (value.across || value.of_row || index.across)) return "a column's output needs a row";
    if (!output.per_row && !output.per_column && value.of_column) return "an element needs its column's result";
  }
  if (reads_twice(kernel, levels)) return "the rows and the columns are read in different orders";
  if (!runs_along(kernel, levels)) return "memory does not run along the rows";
  if (column_words(kernel) > 8) return "too many running values a column";
  if (kernel.inner_extent() * column_words(kernel) > most_column_words) return "too many columns to keep";
  if (needs_whole_rows(kernel)) {
    const auto share = std::ranges::find_if(
        row_shares, [&](int n) { return std::int64_t{n} * most_row_threads >= kernel.inner_extent(); });
    const int tensors = static_cast<int>(kernel.inputs.size() + kernel.outputs.size());
    if (share == std::end(row_shares) ||
        plain_registers + 2 * tensors + *share * (column_words(kernel) + element_words(kernel)) > row_registers)
      return "the rows are too long to be known as a whole";
  }
  return {};
}

}  // namespace planish::codegen
