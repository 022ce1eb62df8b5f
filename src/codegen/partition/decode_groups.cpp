#include "codegen/partition/decode_groups.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "codegen/attention/decode.h"
#include "codegen/attention/half.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/makers.h"

namespace planish::codegen {
namespace {

/// Attention that one kernel computes with what makes its operands.
struct Attending {
  Kernel kernel;
  bool few = false;    ///< queries
  bool pages = false;  ///< keys and values are read in pages that a table names
};

/// Nothing where a kernel of these nodes is no such attention. That of many queries is: what it can be part of is said
/// by its operands.
std::optional<Attending> attending(const ir::Graph& graph, const Usage& usage, const std::set<int>& nodes, int output,
                                   const LowerLimits& limits) {
  std::vector<bool> inside = usage.inlined;
  for (const int n : nodes) inside[static_cast<std::size_t>(n)] = true;
  const int outputs[] = {output};
  auto kernel = lower(graph, inside, outputs, limits);
  if (!kernel || kernel->anchor != Anchor::attention) return std::nullopt;
  const auto parts = attention_of(*kernel);
  if (!parts) return std::nullopt;
  if (decode_of(*kernel, *parts)) return Attending{std::move(*kernel), true, false};
  const auto half = attention::half_attention_of(*kernel, *parts);
  if (!half) return std::nullopt;
  return Attending{std::move(*kernel), false, attention::in_pages(*half)};
}

/// The value behind views.
int behind_views(const ir::Graph& graph, const Usage& usage, int value) {
  for (int maker = usage.producers[static_cast<std::size_t>(value)];
       maker >= 0 && usage.inlined[static_cast<std::size_t>(maker)];
       maker = usage.producers[static_cast<std::size_t>(value)]) {
    const auto read = ir::reads(graph.nodes[static_cast<std::size_t>(maker)]);
    if (read.size() != 1) break;
    value = read[0];
  }
  return value;
}

class DecodeGroups {
 public:
  DecodeGroups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits, const std::set<int>& taken)
      : graph_(graph), usage_(usage), limits_(limits), taken_(taken) {}

  std::vector<KernelGroup> find() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const ir::GraphNode& node = graph_.nodes[static_cast<std::size_t>(n)];
      if (!usage_.needed[static_cast<std::size_t>(n)] || node.outs.size() != 1 || !node.outs[0]) continue;
      if (node.arg("query") != nullptr) {
        begin(n, {n}, {operand_of(n, "query"), operand_of(n, "key"), operand_of(n, "value")});
      } else if (is_product(n)) {
        written(n);
      }
    }
    take_masks();
    std::vector<KernelGroup> groups;
    for (Found& each : found_)
      if (each.group.nodes.size() > 1) groups.push_back(std::move(each.group));
    return groups;
  }

 private:
  struct Found {
    int attention = -1;  ///< node that gives the result
    KernelGroup group;
    bool few = false, pages = false;  ///< as Attending has them
  };

  /// Of two matrices, or batches of them.
  bool is_product(int n) const {
    const std::string_view op = graph_.nodes[static_cast<std::size_t>(n)].op;
    return op == "aten.matmul.default" || op == "aten.bmm.default";
  }
  int factor(int n, bool second) const {
    return second ? std::max(operand_of(n, "other"), operand_of(n, "mat2")) : operand_of(n, "self");
  }

  /// Whether another kernel is made of one of these: a product of few rows, or attention that was found before.
  bool is_taken(const std::set<int>& nodes) const {
    return std::ranges::any_of(nodes, [&](int n) {
      return taken_.contains(n) ||
             std::ranges::any_of(found_, [&](const Found& found) { return found.group.nodes.contains(n); });
    });
  }

  /// Attention of these nodes, with what makes its operands.
  void begin(int n, std::set<int> nodes, std::initializer_list<int> operands) {
    auto found = attending(graph_, usage_, nodes, *graph_.nodes[static_cast<std::size_t>(n)].outs[0], limits_);
    if (!found) return;
    const std::set<int> readers = nodes;
    found_.push_back({n, {std::move(nodes), std::move(found->kernel)}, found->few, found->pages});
    std::vector<std::set<int>> each;
    for (const int value : operands) {
      if (value < 0) continue;
      each.push_back(makers(value, readers));
      if (is_taken(each.back())) each.back().clear();
    }
    // Together where they can be: keys and values that are repeated for each head of a group are not, for both. Many
    // queries are not computed.
    const auto all = [&](std::size_t first) {
      std::set<int> out;
      for (std::size_t i = first; i < each.size(); ++i) out.insert(each[i].begin(), each[i].end());
      return out;
    };
    if (!found->few) {
      if (!take(found_.back(), all(1))) found_.pop_back();
      return;
    }
    if (take(found_.back(), all(0))) return;
    for (const std::set<int>& one : each) take(found_.back(), one);
  }

  /// Attention as it is written down: a product, whatever becomes of it element by element and along rows, and node
  /// `n`, a product of that with something else.
  void written(int n) {
    const int weights = factor(n, false);
    if (weights < 0) return;
    std::set<int> nodes = makers(weights, {n}, true);
    if (nodes.empty()) return;
    std::set<int> products;
    for (const int made : nodes) {
      for (const int v : usage_.sources(graph_, made)) {
        const int maker = usage_.producers[static_cast<std::size_t>(v)];
        if (maker >= 0 && is_product(maker)) products.insert(maker);
      }
    }
    if (products.size() != 1) return;
    const int scores = *products.begin();
    const auto product = static_cast<std::size_t>(*graph_.nodes[static_cast<std::size_t>(scores)].outs[0]);
    if (!usage_.shown[product].empty() ||
        !std::ranges::all_of(usage_.users[product], [&](int user) { return nodes.contains(user); }))
      return;
    nodes.insert({scores, n});
    if (static_cast<int>(nodes.size()) > limits_.max_nodes || is_taken(nodes)) return;
    begin(n, std::move(nodes), {factor(scores, false), factor(scores, true), factor(n, true)});
  }

  /// Behind views; -1: there is none.
  int operand_of(int n, std::string_view name) const {
    const ir::Arg* const arg = graph_.nodes[static_cast<std::size_t>(n)].arg(name);
    const auto* const given = arg == nullptr ? nullptr : std::get_if<ir::ValueRef>(&arg->data);
    return given == nullptr ? -1 : behind_views(graph_, usage_, given->id);
  }

  /// `rows`: by sums along rows, too.
  std::set<int> makers(int value, const std::set<int>& readers, bool rows = false) const {
    return makers_of(graph_, usage_, value, readers, [&](int maker) {
      const auto at = static_cast<std::size_t>(maker);
      const OpClass kind = classify(graph_.nodes[at].op);
      return usage_.needed[at] && !usage_.inlined[at] && (kind == OpClass::pointwise || (rows && kind == OpClass::row));
    });
  }

  /// The same with these nodes, too: of few queries, or in pages.
  std::optional<Found> with(const Found& found, const std::set<int>& more) const {
    std::set<int> nodes = found.group.nodes;
    nodes.insert(more.begin(), more.end());
    if (more.empty() || static_cast<int>(nodes.size()) > limits_.max_nodes) return std::nullopt;
    const auto& out = graph_.nodes[static_cast<std::size_t>(found.attention)].outs[0];
    auto larger = attending(graph_, usage_, nodes, *out, limits_);
    if (!larger || larger->few != found.few || (!larger->few && !larger->pages)) return std::nullopt;
    return Found{found.attention, {std::move(nodes), std::move(larger->kernel)}, larger->few, larger->pages};
  }
  bool take(Found& found, const std::set<int>& more) const {
    auto larger = with(found, more);
    if (!larger) return false;
    found = std::move(*larger);
    return true;
  }

  /// A mask that these attentions alone read, by all of them or none.
  void take_masks() {
    std::map<int, std::vector<std::size_t>> readers;
    for (std::size_t i = 0; i < found_.size(); ++i)
      if (const int mask = operand_of(found_[i].attention, "attn_mask"); mask >= 0) readers[mask].push_back(i);
    for (const auto& [mask, members] : readers) {
      std::set<int> attentions;
      for (const std::size_t i : members) attentions.insert(found_[i].attention);
      const std::set<int> more = makers(mask, attentions);
      if (is_taken(more)) continue;
      std::vector<Found> all;
      for (const std::size_t i : members)
        if (auto larger = with(found_[i], more)) all.push_back(std::move(*larger));
      if (all.size() != members.size()) continue;
      for (std::size_t k = 0; k < members.size(); ++k) found_[members[k]] = std::move(all[k]);
    }
  }

  const ir::Graph& graph_;
  const Usage& usage_;
  const LowerLimits& limits_;
  const std::set<int>& taken_;
  std::vector<Found> found_;
};

}  // namespace

std::vector<KernelGroup> decode_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits,
                                       const std::set<int>& taken) {
  return DecodeGroups(graph, usage, limits, taken).find();
}

}  // namespace planish::codegen
