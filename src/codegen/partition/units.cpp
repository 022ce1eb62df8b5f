#include "codegen/partition/units.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "codegen/cost.h"
#include "codegen/partition/regions.h"

namespace planish::codegen {
namespace {

/// A kernel that folds rows and stores elements that need nothing of what is folded.
bool stores_and_folds(const Kernel& kernel) {
  if (kernel.anchor != Anchor::row) return false;
  std::vector<bool> folded(kernel.nodes.size());
  for (std::size_t n = 0; n < folded.size(); ++n) {
    const Node& node = kernel.nodes[n];
    folded[n] = node.op == Op::reduced || std::ranges::any_of(node.args, [&](int a) { return folded[a]; });
  }
  return std::ranges::any_of(kernel.outputs,
                             [&](const Output& o) { return !o.per_row && !folded[static_cast<std::size_t>(o.node)]; });
}

}  // namespace

bool worth(double bytes_saved, double flops_added) {
  return bytes_saved >= 0 && flops_added <= flops_per_byte * bytes_saved;
}

Units::Units(const ir::Graph& graph, const Usage& usage, const PartitionOptions& options)
    : graph_(graph), usage_(usage), limits_(options.limits), unit_of_(graph.nodes.size(), -1) {
  limits_.unneeded_rows = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!usage.needed[n] || usage.inlined[n]) continue;
    unit_of_[n] = static_cast<int>(units_.size());
    Unit unit;
    unit.nodes = {static_cast<int>(n)};
    const OpClass c = classify(graph.nodes[n].op);
    if (c == OpClass::pointwise || c == OpClass::row || c == OpClass::scan || c == OpClass::write) {
      if (auto trial = try_nodes(unit.nodes)) set(unit, unit.nodes, std::move(*trial));
    }
    units_.push_back(std::move(unit));
  }
}

void Units::set_aside(std::span<const std::set<int>> groups) {
  for (const std::set<int>& group : groups) {
    const auto own = std::ranges::find_if(
        group, [&](int n) { return !units_[static_cast<std::size_t>(unit_of_[static_cast<std::size_t>(n)])].aside; });
    if (own == group.end()) continue;
    const int mine = unit_of_[static_cast<std::size_t>(*own)];
    Unit& unit = units_[static_cast<std::size_t>(mine)];
    for (const int n : group) {
      const int theirs = unit_of_[static_cast<std::size_t>(n)];
      if (theirs == mine) continue;
      Unit& other = units_[static_cast<std::size_t>(theirs)];
      if (other.aside) {
        unit.nodes.insert(n);  // both compute it
        continue;
      }
      other.alive = false;
      unit.nodes.insert(other.nodes.begin(), other.nodes.end());
      for (const int moved : other.nodes) unit_of_[static_cast<std::size_t>(moved)] = mine;
    }
    unit.kernel.reset();
    unit.outputs = outputs_of(unit.nodes);
    unit.aside = true;
    ++unit.version;
  }
}

void Units::set(Unit& unit, std::set<int> nodes, Trial trial) {
  unit.nodes = std::move(nodes);
  unit.kernel = std::move(trial.kernel);
  unit.outputs = std::move(trial.outputs);
  unit.given = std::move(trial.given);
  unit.bytes = trial.bytes;
  unit.flops = trial.flops;
  ++unit.version;
}

std::vector<int> Units::outputs_of(const std::set<int>& nodes) const {
  std::vector<int> outputs;
  for (const int n : nodes) {
    for (const auto& out : graph_.nodes[static_cast<std::size_t>(n)].outs) {
      if (!out) continue;
      const auto& users = usage_.users[static_cast<std::size_t>(*out)];
      const bool outside = std::any_of(users.begin(), users.end(), [&](int user) { return !nodes.contains(user); });
      if (outside || !usage_.shown[static_cast<std::size_t>(*out)].empty()) outputs.push_back(*out);
    }
  }
  std::sort(outputs.begin(), outputs.end());
  return outputs;
}

std::optional<Units::Trial> Units::lower_outputs(const std::set<int>& nodes, std::vector<int> outputs,
                                                 std::vector<int> given) const {
  std::vector<bool> inside = usage_.inlined;
  for (const int n : nodes) inside[static_cast<std::size_t>(n)] = true;
  auto kernel = lower(graph_, inside, outputs, limits_, given);
  if (!kernel) return std::nullopt;
  const Cost costs = cost(*kernel);
  return Trial{std::move(*kernel), std::move(outputs), std::move(given), costs.bytes, costs.flops};
}

std::optional<Units::Trial> Units::try_nodes(const std::set<int>& nodes) const {
  if (static_cast<int>(nodes.size()) > limits_.max_nodes) return std::nullopt;
  return lower_outputs(nodes, outputs_of(nodes));
}

std::vector<int> Units::consumers(int unit) const {
  if (repeated_) return readers_of(units_[static_cast<std::size_t>(unit)]);
  std::vector<int> result;
  for (const int n : units_[static_cast<std::size_t>(unit)].nodes) {
    if (unit_of_[static_cast<std::size_t>(n)] != unit) continue;  // another one gives it out
    for (const auto& out : graph_.nodes[static_cast<std::size_t>(n)].outs) {
      if (!out) continue;
      for (const int user : usage_.users[static_cast<std::size_t>(*out)]) {
        const int u = unit_of_[static_cast<std::size_t>(user)];
        if (u != unit && std::find(result.begin(), result.end(), u) == result.end()) result.push_back(u);
      }
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool Units::reaches(int a, int b, bool direct) const {
  std::vector<bool> seen(units_.size(), false);
  std::vector<int> todo;
  for (const int c : consumers(a)) {
    if (c == b) {
      if (direct) return true;
      continue;
    }
    todo.push_back(c);
  }
  while (!todo.empty()) {
    const int u = todo.back();
    todo.pop_back();
    if (u == b) return true;
    if (seen[static_cast<std::size_t>(u)]) continue;
    seen[static_cast<std::size_t>(u)] = true;
    for (const int c : consumers(u)) todo.push_back(c);
  }
  return false;
}

bool Units::join(int a, int b) {
  Unit& first = units_[static_cast<std::size_t>(a)];
  Unit& second = units_[static_cast<std::size_t>(b)];
  const std::array<int, 4> attempt{a, first.version, b, second.version};
  if (failed_.contains(attempt)) return false;
  std::set<int> nodes = first.nodes;
  nodes.insert(second.nodes.begin(), second.nodes.end());
  std::optional<Trial> trial;
  const auto free = [&] { return !reaches(a, b, false) && !reaches(b, a, false); };
  if (!repeated_) {
    if (free()) trial = try_nodes(nodes);
  } else if (first.kernel->anchor == Anchor::row || second.kernel->anchor == Anchor::row) {
    // Once nodes are repeated, walking among units takes long.
    trial = try_nodes(nodes);
    if (trial && (!stores_and_folds(trial->kernel) || !free())) trial.reset();
  }
  if (!trial || !worth(first.bytes + second.bytes - trial->bytes, trial->flops - first.flops - second.flops)) {
    failed_.insert(attempt);
    return false;
  }
  set(second, std::move(nodes), std::move(*trial));
  for (const int n : second.nodes) unit_of_[static_cast<std::size_t>(n)] = b;
  first.alive = false;
  first.nodes.clear();
  return true;
}

void Units::fuse() {
  // A fold of parts joins the kernel that knows the rows only where it joined no other: what needs its results had
  // better be with it.
  const bool parts = std::exchange(limits_.parts, false);
  grow();
  limits_.parts = parts;
  failed_.clear();
  grow();
}

void Units::grow() {
  const auto fused = [&](int u) {
    const Unit& unit = units_[static_cast<std::size_t>(u)];
    return unit.alive && unit.kernel && (!repeated_ || repeats_nothing(unit));
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
      if (!fused(u)) continue;
      for (const int c : consumers(u)) {
        if (!fused(c) || !join(u, c)) continue;
        changed = true;
        break;
      }
    }
    if (changed) continue;
    // Siblings: they must read a common value, and save by reading it once.
    for (int a = 0; a < static_cast<int>(units_.size()) && !changed; ++a) {
      if (!fused(a)) continue;
      for (int b = a + 1; b < static_cast<int>(units_.size()); ++b) {
        if (!fused(b)) continue;
        const auto& x = *units_[static_cast<std::size_t>(a)].kernel;
        const auto& y = *units_[static_cast<std::size_t>(b)].kernel;
        const bool common = std::any_of(x.inputs.begin(), x.inputs.end(), [&](const Input& i) {
          return std::any_of(y.inputs.begin(), y.inputs.end(), [&](const Input& j) {
            return i.value == j.value && 8 * i.storage_elements >= x.outer_extent() * x.inner_extent();
          });
        });
        if (!common || (!repeated_ && (reaches(a, b, true) || reaches(b, a, true))) || !join(a, b)) continue;
        changed = true;
        break;
      }
    }
  }
}

std::vector<int> Units::readers_of(const Unit& unit) const {
  std::set<int> made(unit.outputs.begin(), unit.outputs.end());
  if (!unit.kernel) {
    for (const int n : unit.nodes) {
      for (const auto& out : graph_.nodes[static_cast<std::size_t>(n)].outs) {
        if (out) made.insert(*out);
      }
    }
  }
  std::vector<int> result;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    const Unit& other = units_[static_cast<std::size_t>(u)];
    if (!other.alive || &other == &unit) continue;
    const auto reads = [&](int v) {
      const auto& users = usage_.users[static_cast<std::size_t>(v)];
      // What repeats a value reads it only where it was given it.
      if (!other.nodes.contains(usage_.producers[static_cast<std::size_t>(v)]))
        return std::ranges::any_of(users, [&](int user) { return other.nodes.contains(user); });
      return other.kernel && std::ranges::find(other.kernel->inputs, v, &Input::value) != other.kernel->inputs.end();
    };
    if (std::ranges::any_of(made, reads)) result.push_back(u);
  }
  return result;
}

bool Units::repeats_nothing(const Unit& unit) const {
  if (!unit.given.empty()) return false;
  return std::ranges::all_of(unit.nodes, [&](int n) {
    return &units_[static_cast<std::size_t>(unit_of_[static_cast<std::size_t>(n)])] == &unit;
  });
}

void Units::fuse_with_stores() {
  limits_.unneeded_rows = true;
  repeated_ = true;
  failed_.clear();
  grow();
}

void Units::gather_counters() {
  constexpr std::int64_t most_points = 256;
  // A thread has all of them under way: of forty, no schedule has registers for the addresses and the values.
  constexpr std::size_t most_together = 16;
  const auto counts = [&](int u) {
    const Unit& unit = units_[static_cast<std::size_t>(u)];
    return unit.alive && unit.kernel && unit.kernel->anchor == Anchor::pointwise &&
           unit.kernel->outer_extent() <= most_points;
  };
  const auto read_alone = [&](int u) { return consumers(u).empty(); };
  const auto waits_for_nothing = [&](int u) {
    return std::ranges::all_of(units_[static_cast<std::size_t>(u)].kernel->inputs, [&](const Input& input) {
      return usage_.producers[static_cast<std::size_t>(input.value)] < 0;
    });
  };
  // Nothing waits for any of them, or none of them waits for anything, so that no two kernels come to wait for each
  // other.
  gather(most_together, [&](int u) { return counts(u) && read_alone(u); });
  gather(most_together, [&](int u) { return counts(u) && !read_alone(u) && waits_for_nothing(u); });
}

void Units::gather(std::size_t most, const std::function<bool(int)>& taken) {
  std::vector<int> found;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    if (!taken(u)) continue;
    const Unit& unit = units_[static_cast<std::size_t>(u)];
    bool gathered = false;
    for (const int f : found) {
      Unit& first = units_[static_cast<std::size_t>(f)];
      if (first.kernel->outer_extent() != unit.kernel->outer_extent()) continue;
      if (first.nodes.size() + unit.nodes.size() > most) continue;
      std::set<int> nodes = first.nodes;
      nodes.insert(unit.nodes.begin(), unit.nodes.end());
      auto trial = try_nodes(nodes);
      if (!trial) continue;
      for (const int n : unit.nodes) unit_of_[static_cast<std::size_t>(n)] = f;
      set(first, std::move(nodes), std::move(*trial));
      gathered = true;
      break;
    }
    if (!gathered) {
      found.push_back(u);
      continue;
    }
    units_[static_cast<std::size_t>(u)].alive = false;
    units_[static_cast<std::size_t>(u)].nodes.clear();
  }
}

void Units::gather_writes() {
  const auto writes = [&](int u) {
    const Unit& unit = units_[static_cast<std::size_t>(u)];
    return unit.alive && unit.kernel && unit.kernel->anchor == Anchor::scatter;
  };
  for (int a = 0; a < static_cast<int>(units_.size()); ++a) {
    if (!writes(a)) continue;
    for (int b = a + 1; b < static_cast<int>(units_.size()); ++b) {
      Unit& first = units_[static_cast<std::size_t>(a)];
      Unit& second = units_[static_cast<std::size_t>(b)];
      if (!writes(b) || first.kernel->outer_extent() != second.kernel->outer_extent()) continue;
      if (reaches(a, b, true) || reaches(b, a, true)) continue;
      std::set<int> nodes = first.nodes;
      nodes.insert(second.nodes.begin(), second.nodes.end());
      auto trial = try_nodes(nodes);
      if (!trial || trial->kernel.anchor != Anchor::scatter) continue;
      // The later one: all that either reads is there by then.
      set(second, std::move(nodes), std::move(*trial));
      for (const int n : second.nodes) unit_of_[static_cast<std::size_t>(n)] = b;
      first.alive = false;
      first.nodes.clear();
      break;
    }
  }
}

void Units::duplicate() {
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    Unit& unit = units_[static_cast<std::size_t>(u)];
    if (!unit.alive || !unit.kernel || unit.kernel->anchor != Anchor::pointwise) continue;
    const bool shown = std::any_of(unit.outputs.begin(), unit.outputs.end(),
                                   [&](int v) { return !usage_.shown[static_cast<std::size_t>(v)].empty(); });
    if (shown) continue;
    // Units may share nodes after an earlier duplication: every kernel that loads one of the outputs is a reader.
    std::vector<int> readers;
    bool kernels_only = true;
    for (int c = 0; c < static_cast<int>(units_.size()); ++c) {
      const Unit& other = units_[static_cast<std::size_t>(c)];
      if (c == u || !other.alive) continue;
      bool reads = false;
      for (const int v : unit.outputs) {
        for (const int user : usage_.users[static_cast<std::size_t>(v)]) reads = reads || other.nodes.contains(user);
      }
      if (!reads) continue;
      kernels_only = kernels_only && other.kernel.has_value();
      readers.push_back(c);
    }
    if (!kernels_only || readers.empty()) continue;
    const auto operations = [](const Kernel& kernel, double flops) {
      return kernel.anchor == Anchor::pointwise || kernel.anchor == Anchor::row ? operations_again(kernel) : flops;
    };
    double before = unit.bytes, after = 0, added = -operations(*unit.kernel, unit.flops);
    std::vector<std::pair<std::set<int>, Trial>> trials;
    for (const int c : readers) {
      const Unit& other = units_[static_cast<std::size_t>(c)];
      std::set<int> nodes = other.nodes;
      nodes.insert(unit.nodes.begin(), unit.nodes.end());
      // The repeated values stay inside; what the reader already gave out stays as it is.
      auto trial = lower_outputs(nodes, other.outputs);
      if (!trial) break;
      before += other.bytes;
      after += trial->bytes;
      added += operations(trial->kernel, trial->flops) - operations(*other.kernel, other.flops);
      trials.emplace_back(std::move(nodes), std::move(*trial));
    }
    if (trials.size() != readers.size() || !worth(before - after, added)) continue;
    for (std::size_t i = 0; i < readers.size(); ++i) {
      set(units_[static_cast<std::size_t>(readers[i])], std::move(trials[i].first), std::move(trials[i].second));
    }
    unit.alive = false;
    unit.nodes.clear();
  }
}

void Units::absorb_output_views() {
  for (Unit& unit : units_) {
    if (!unit.alive || !unit.kernel) continue;
    std::vector<int> outputs = unit.outputs;
    bool changed = false;
    for (int& v : outputs) {
      const auto& shown = usage_.shown[static_cast<std::size_t>(v)];
      const auto& users = usage_.users[static_cast<std::size_t>(v)];
      if (shown.size() != 1 || shown[0] == v) continue;
      if (!std::all_of(users.begin(), users.end(), [&](int user) { return unit.nodes.contains(user); })) continue;
      if (std::ranges::any_of(units_, [&](const Unit& u) { return u.alive && std::ranges::binary_search(u.given, v); }))
        continue;
      if (graph_.values[static_cast<std::size_t>(shown[0])].elements() !=
          graph_.values[static_cast<std::size_t>(v)].elements())
        continue;
      v = shown[0];
      changed = true;
    }
    if (!changed) continue;
    if (auto trial = lower_outputs(unit.nodes, outputs, unit.given)) set(unit, unit.nodes, std::move(*trial));
  }
}

}  // namespace planish::codegen
