#include "codegen/partition/decode_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "codegen/attention/decode.h"
#include "codegen/lower/lower.h"
#include "codegen/partition/makers.h"

namespace planish::codegen {
namespace {

/// The kernel, where it is attention of few queries.
std::optional<Kernel> decoding(const ir::Graph& graph, const Usage& usage, const std::set<int>& nodes, int output,
                               const LowerLimits& limits) {
  std::vector<bool> inside = usage.inlined;
  for (const int n : nodes) inside[static_cast<std::size_t>(n)] = true;
  const int outputs[] = {output};
  auto kernel = lower(graph, inside, outputs, limits);
  if (!kernel || kernel->anchor != Anchor::attention) return std::nullopt;
  const auto parts = attention_of(*kernel);
  if (!parts || !decode_of(*kernel, *parts)) return std::nullopt;
  return std::move(*kernel);
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
  DecodeGroups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits)
      : graph_(graph), usage_(usage), limits_(limits) {}

  std::vector<KernelGroup> find() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      const ir::GraphNode& node = graph_.nodes[static_cast<std::size_t>(n)];
      if (node.arg("query") == nullptr || !usage_.needed[static_cast<std::size_t>(n)] || node.outs.size() != 1 ||
          !node.outs[0])
        continue;
      auto kernel = decoding(graph_, usage_, {n}, *node.outs[0], limits_);
      if (!kernel) continue;
      found_.push_back({n, {{n}, std::move(*kernel)}});
      for (const std::string_view operand : {"query", "key", "value"}) {
        const int value = operand_of(n, operand);
        if (value >= 0) take(found_.back(), makers(value, {n}));
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
    int attention = -1;  ///< node
    KernelGroup group;
  };

  /// Behind views; -1: there is none.
  int operand_of(int n, std::string_view name) const {
    const ir::Arg* const arg = graph_.nodes[static_cast<std::size_t>(n)].arg(name);
    const auto* const given = arg == nullptr ? nullptr : std::get_if<ir::ValueRef>(&arg->data);
    return given == nullptr ? -1 : behind_views(graph_, usage_, given->id);
  }

  std::set<int> makers(int value, const std::set<int>& readers) const {
    return makers_of(graph_, usage_, value, readers, [&](int maker) {
      const auto at = static_cast<std::size_t>(maker);
      return usage_.needed[at] && !usage_.inlined[at] && classify(graph_.nodes[at].op) == OpClass::pointwise;
    });
  }

  /// The group with these nodes, too.
  std::optional<KernelGroup> with(const Found& found, const std::set<int>& more) const {
    std::set<int> nodes = found.group.nodes;
    nodes.insert(more.begin(), more.end());
    if (more.empty() || static_cast<int>(nodes.size()) > limits_.max_nodes) return std::nullopt;
    const auto& out = graph_.nodes[static_cast<std::size_t>(found.attention)].outs[0];
    auto kernel = decoding(graph_, usage_, nodes, *out, limits_);
    if (!kernel) return std::nullopt;
    return KernelGroup{std::move(nodes), std::move(*kernel)};
  }
  void take(Found& found, const std::set<int>& more) const {
    if (auto larger = with(found, more)) found.group = std::move(*larger);
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
      std::vector<KernelGroup> all;
      for (const std::size_t i : members)
        if (auto larger = with(found_[i], more)) all.push_back(std::move(*larger));
      if (all.size() != members.size()) continue;
      for (std::size_t k = 0; k < members.size(); ++k) found_[members[k]].group = std::move(all[k]);
    }
  }

  const ir::Graph& graph_;
  const Usage& usage_;
  const LowerLimits& limits_;
  std::vector<Found> found_;
};

}  // namespace

std::vector<KernelGroup> decode_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits) {
  return DecodeGroups(graph, usage, limits).find();
}

}  // namespace planish::codegen
