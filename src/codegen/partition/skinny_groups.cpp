#include "codegen/partition/skinny_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "codegen/emit/expression.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/makers.h"
#include "codegen/skinny/skinny.h"

namespace planish::codegen {
namespace {

using Nodes = std::set<int>;

/// A kernel in the making.
struct Growing {
  Nodes nodes;
  Kernel kernel;
  Skinny skinny;
  int operand = -1;  ///< the value that x is loaded from; -1: x is made of several
  bool alive = true;
};

Nodes united(const Nodes& a, const Nodes& b) {
  Nodes out = a;
  out.insert(b.begin(), b.end());
  return out;
}

class Grower {
 public:
  Grower(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits)
      : graph_(graph), usage_(usage), limits_(limits), owner_(graph.nodes.size(), -1) {}

  std::vector<KernelGroup> grow() {
    seeds();
    for (std::size_t g = 0; g < groups_.size(); ++g) take_readers(g);
    for (std::size_t g = 0; g < groups_.size(); ++g) join_siblings(g);
    make_operands();
    std::vector<KernelGroup> out;
    for (Growing& one : groups_)
      if (one.alive) out.push_back({std::move(one.nodes), std::move(one.kernel)});
    return out;
  }

 private:
  const ir::GraphNode& node(int n) const { return graph_.nodes[static_cast<std::size_t>(n)]; }
  bool is_free(int n) const {
    const auto at = static_cast<std::size_t>(n);
    return usage_.needed[at] && !usage_.inlined[at] && owner_[at] < 0;
  }

  /// Values that nodes outside read, or the caller.
  std::vector<int> outputs_of(const Nodes& nodes) const {
    std::vector<int> outputs;
    for (const int n : nodes) {
      for (const auto& out : node(n).outs) {
        if (!out) continue;
        const auto& users = usage_.users[static_cast<std::size_t>(*out)];
        const bool outside = std::ranges::any_of(users, [&](int user) { return !nodes.contains(user); });
        if (outside || !usage_.shown[static_cast<std::size_t>(*out)].empty()) outputs.push_back(*out);
      }
    }
    std::ranges::sort(outputs);
    return outputs;
  }

  double bytes_of(const std::vector<int>& values) const {
    double total = 0;
    for (const int v : values) {
      const ir::Value& value = graph_.values[static_cast<std::size_t>(v)];
      total += static_cast<double>(value.elements()) * size_of(value.dtype);
    }
    return total;
  }

  /// The value that all of x comes from, and -1 where there are several.
  static int operand_of(const Kernel& kernel, const Skinny& skinny) {
    const std::vector<int> roots{skinny.operand};
    int found = -1;
    for (const int id : printing::closure(kernel, roots, [](int) { return false; })) {
      const Node& one = kernel.nodes[static_cast<std::size_t>(id)];
      if (one.op != Op::load) continue;
      const int value = kernel.inputs[static_cast<std::size_t>(one.input)].value;
      if (found >= 0 && found != value) return -1;
      found = value;
    }
    return found;
  }

  std::optional<Growing> lowered(Nodes nodes, const std::vector<int>& outputs) const {
    if (static_cast<int>(nodes.size()) > limits_.max_nodes || outputs.empty()) return std::nullopt;
    std::vector<bool> inside = usage_.inlined;
    for (const int n : nodes) inside[static_cast<std::size_t>(n)] = true;
    auto kernel = lower(graph_, inside, outputs, limits_);
    if (!kernel) return std::nullopt;
    auto skinny = skinny_of(*kernel);
    if (!skinny) return std::nullopt;
    const int operand = operand_of(*kernel, *skinny);
    return Growing{std::move(nodes), std::move(*kernel), std::move(*skinny), operand, true};
  }

  /// Whether something that the nodes read follows from what they make, by way of others. Nodes that are inlined are
  /// computed where they are read: such as lie between the nodes are no others.
  bool waits_for_itself(const Nodes& nodes) const {
    std::vector<int> todo(nodes.begin(), nodes.end());
    std::vector<bool> seen(graph_.nodes.size(), false);
    const auto ask = [&](int n) {
      for (const int v : ir::reads(node(n))) todo.push_back(usage_.producers[static_cast<std::size_t>(v)]);
    };
    std::vector<int> others;
    while (!todo.empty()) {
      const int n = todo.back();
      todo.pop_back();
      if (n < 0 || seen[static_cast<std::size_t>(n)]) continue;
      seen[static_cast<std::size_t>(n)] = true;
      if (nodes.contains(n) || usage_.inlined[static_cast<std::size_t>(n)]) {
        ask(n);
      } else {
        others.push_back(n);
      }
    }
    seen.assign(seen.size(), false);
    todo = std::move(others);
    while (!todo.empty()) {
      const int n = todo.back();
      todo.pop_back();
      if (n < 0 || seen[static_cast<std::size_t>(n)]) continue;
      if (nodes.contains(n)) return true;
      seen[static_cast<std::size_t>(n)] = true;
      ask(n);
    }
    return false;
  }

  void own(std::size_t g) {
    for (const int n : groups_[g].nodes) owner_[static_cast<std::size_t>(n)] = static_cast<int>(g);
  }

  /// A product with what makes its weights of codes of 8 or 4 bits, which then never exist in 16.
  std::optional<Growing> with_codes(int product) const {
    const auto computed = [&](int n) { return is_free(n) && classify(node(n).op) == OpClass::pointwise; };
    for (const int v : usage_.sources(graph_, product)) {
      Nodes nodes = makers_of(graph_, usage_, v, {product}, computed);
      if (nodes.empty()) continue;
      nodes.insert(product);
      const auto outputs = outputs_of(nodes);
      auto one = lowered(std::move(nodes), outputs);
      if (one && one->operand >= 0 && one->skinny.codes() != nullptr) return one;
    }
    return std::nullopt;
  }

  void seeds() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (!is_free(n) || !contracts(node(n).op) || node(n).outs.size() != 1) continue;
      auto one = with_codes(n);
      if (!one) one = lowered({n}, outputs_of({n}));
      if (!one || one->operand < 0) continue;
      groups_.push_back(std::move(*one));
      own(groups_.size() - 1);
    }
  }

  /// `all` in place of these groups.
  void replace(std::size_t g, Growing all, const std::vector<std::size_t>& others) {
    for (const std::size_t other : others) groups_[other].alive = false;
    groups_[g] = std::move(all);
    own(g);
  }

  /// Makers of a value that only these read, where they make it of stored tensors alone, element by element and no
  /// larger than what the reader gives: a scale of rows that is brought to another type. It is computed where it is
  /// read.
  Nodes stored_alone(int value, const Nodes& readers, int reader) const {
    const auto elements = [&](int v) { return graph_.values[static_cast<std::size_t>(v)].elements(); };
    const auto& outs = node(reader).outs;
    if (outs.size() != 1 || !outs[0] || elements(value) > elements(*outs[0])) return {};
    const auto computed = [&](int n) { return is_free(n) && classify(node(n).op) == OpClass::pointwise; };
    Nodes makers = makers_of(graph_, usage_, value, readers, computed);
    for (const int n : makers) {
      for (const int v : usage_.sources(graph_, n)) {
        const int producer = usage_.producers[static_cast<std::size_t>(v)];
        if (elements(v) > elements(*outs[0]) || (producer >= 0 && !makers.contains(producer))) return {};
      }
    }
    return makers;
  }

  /// What reads a group's results element by element, with the groups that it reads beside, as long as no more is
  /// stored for it.
  void take_readers(std::size_t g) {
    while (groups_[g].alive) {
      const Growing& mine = groups_[g];
      Nodes nodes = mine.nodes;
      std::vector<std::size_t> others;
      double stored = bytes_of(outputs_of(mine.nodes));
      const auto add = [&](int reader) {
        if (!is_free(reader) || classify(node(reader).op) != OpClass::pointwise) return false;
        nodes.insert(reader);
        for (const int v : usage_.sources(graph_, reader)) {
          nodes = united(nodes, stored_alone(v, nodes, reader));
          const int maker = usage_.producers[static_cast<std::size_t>(v)];
          const int owner = maker < 0 ? -1 : owner_[static_cast<std::size_t>(maker)];
          if (owner < 0 || static_cast<std::size_t>(owner) == g) continue;
          const auto other = static_cast<std::size_t>(owner);
          if (groups_[other].operand != mine.operand || std::ranges::find(others, other) != others.end()) continue;
          others.push_back(other);
          nodes = united(nodes, groups_[other].nodes);
          stored += bytes_of(outputs_of(groups_[other].nodes));
        }
        return true;
      };
      bool any = false;
      for (const int v : outputs_of(mine.nodes)) {
        for (const int user : usage_.users[static_cast<std::size_t>(v)]) {
          if (mine.nodes.contains(user)) continue;
          if (!add(user)) return;
          any = true;
        }
      }
      const auto outputs = outputs_of(nodes);
      if (!any || bytes_of(outputs) > stored || waits_for_itself(nodes)) return;
      auto all = lowered(std::move(nodes), outputs);
      if (!all || all->operand != mine.operand) return;
      replace(g, std::move(*all), others);
    }
  }

  /// Products of one operand and size that wait for nothing of each other.
  void join_siblings(std::size_t g) {
    for (std::size_t other = g + 1; other < groups_.size() && groups_[g].alive; ++other) {
      const Growing &a = groups_[g], &b = groups_[other];
      if (!b.alive || a.operand != b.operand || a.skinny.rows != b.skinny.rows || a.skinny.depth != b.skinny.depth)
        continue;
      Nodes nodes = united(a.nodes, b.nodes);
      if (waits_for_itself(nodes)) continue;
      const auto outputs = outputs_of(nodes);
      auto all = lowered(std::move(nodes), outputs);
      if (all) replace(g, std::move(*all), {other});
    }
  }

  void make_operands() {
    std::map<int, std::vector<std::size_t>> readers;  // groups by operand
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g].alive && groups_[g].operand >= 0) readers[groups_[g].operand].push_back(g);
    for (const auto& [value, groups] : readers) {
      Nodes all;
      for (const std::size_t g : groups) all = united(all, groups_[g].nodes);
      const auto computed = [&](int n) {
        const OpClass what = classify(node(n).op);
        return is_free(n) && (what == OpClass::pointwise || what == OpClass::row);
      };
      const Nodes makers = makers_of(graph_, usage_, value, all, computed);
      if (makers.empty()) continue;
      std::vector<Growing> made;
      for (const std::size_t g : groups) {
        auto one = lowered(united(groups_[g].nodes, makers), outputs_of(groups_[g].nodes));
        if (!one) break;
        made.push_back(std::move(*one));
      }
      if (made.size() != groups.size()) continue;
      for (std::size_t i = 0; i < groups.size(); ++i) replace(groups[i], std::move(made[i]), {});
    }
  }

  const ir::Graph& graph_;
  const Usage& usage_;
  const LowerLimits& limits_;
  std::vector<int> owner_;  ///< by node: a group, or -1
  std::vector<Growing> groups_;
};

}  // namespace

std::vector<KernelGroup> skinny_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits) {
  return Grower(graph, usage, limits).grow();
}

}  // namespace planish::codegen
