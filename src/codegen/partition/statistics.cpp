#include "codegen/partition/statistics.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "codegen/lower/lower.h"
#include "codegen/partition/units.h"

namespace planish::codegen {
namespace {

/// Walks from the outputs towards the inputs and stops at the first value that is small enough.
class Cut {
 public:
  Cut(const ir::Graph& graph, const Usage& usage, const std::set<int>& nodes, const std::vector<int>& given,
      std::int64_t most, bool folds)
      : graph_(graph), usage_(usage), nodes_(nodes), given_(given), most_(most), folds_(folds) {}

  /// False where the value cannot be had from small ones.
  bool follow(int v) {
    const int producer = usage_.producers[static_cast<std::size_t>(v)];
    if (producer < 0 || !seen_.insert(v).second || std::ranges::binary_search(given_, v)) return true;
    const ir::GraphNode& node = graph_.nodes[static_cast<std::size_t>(producer)];
    const OpClass c = classify(node.op);
    if (usage_.inlined[static_cast<std::size_t>(producer)]) return c == OpClass::creation || follow_all(node);
    if (!nodes_.contains(producer)) return true;
    if (!depends_on_row(v)) return true;  // repeated as it is
    if (small(v)) {
      cut_.insert(v);
      return true;
    }
    if (c == OpClass::pointwise) return follow_all(node);
    if (c != OpClass::row || node.outs[0] != v) return false;
    const std::vector<int> statistics = statistics_of(graph_, node);
    if (folds_ && statistics.empty()) return follow_all(node);
    if (statistics.empty() || !std::ranges::all_of(statistics, [&](int s) { return small(s); })) return false;
    for (const int s : statistics) {
      if (std::ranges::binary_search(given_, s)) continue;
      const int maker = usage_.producers[static_cast<std::size_t>(s)];
      if (!nodes_.contains(maker) && usage_.needed[static_cast<std::size_t>(maker)]) return false;  // another kernel's
      cut_.insert(s);
      add_makers(s, node);
    }
    return follow_all(node);
  }

  Statistics found() const { return {{cut_.begin(), cut_.end()}, makers_}; }

 private:
  /// What makes a norm's statistics from what the norm reads, where that is not the norm itself.
  void add_makers(int v, const ir::GraphNode& norm) {
    const auto data = ir::reads(norm);
    if (std::ranges::find(data, v) != data.end()) return;
    const int producer = usage_.producers[static_cast<std::size_t>(v)];
    if (producer < 0 || nodes_.contains(producer) || !makers_.insert(producer).second) return;
    for (const int read : ir::reads(graph_.nodes[static_cast<std::size_t>(producer)])) add_makers(read, norm);
  }
  bool follow_all(const ir::GraphNode& node) {
    return std::ranges::all_of(ir::reads(node), [&](int v) { return follow(v); });
  }
  bool small(int v) const { return graph_.values[static_cast<std::size_t>(v)].elements() <= most_; }

  /// Whether the unit folds something to get this value.
  bool depends_on_row(int wanted) const {
    std::set<int> seen;
    std::vector<int> todo{wanted};
    while (!todo.empty()) {
      const int v = todo.back();
      todo.pop_back();
      const int producer = usage_.producers[static_cast<std::size_t>(v)];
      if (producer < 0 || !seen.insert(v).second || std::ranges::binary_search(given_, v)) continue;
      const ir::GraphNode& node = graph_.nodes[static_cast<std::size_t>(producer)];
      const OpClass c = classify(node.op);
      const bool inlined = usage_.inlined[static_cast<std::size_t>(producer)];
      if ((inlined && c == OpClass::creation) || (!inlined && !nodes_.contains(producer))) continue;
      if (c == OpClass::row || c == OpClass::scan) return true;
      const auto ids = ir::reads(node);
      todo.insert(todo.end(), ids.begin(), ids.end());
    }
    return false;
  }

  const ir::Graph& graph_;
  const Usage& usage_;
  const std::set<int>& nodes_;
  const std::vector<int>& given_;
  std::int64_t most_;
  bool folds_;
  std::set<int> seen_, cut_, makers_;
};

/// A byte found in a cache that all share, against one from memory: 6 TB/s beside 4.3 (docs/decisions/0020, 0024).
constexpr double cached = 0.7;

/// Bytes of these values that a kernel reads again: once for each point, where they move as memory runs (one value for
/// many channels at each place of a plane). Where they do not, one load serves a whole vector or row.
double read_again(const Kernel& kernel, const std::vector<int>& values) {
  const auto stored = [&](const Node& load) -> const Input& {
    return kernel.inputs[static_cast<std::size_t>(load.input)];
  };
  const auto among = [&](const Node& node) {
    return node.op == Op::load && std::ranges::binary_search(values, stored(node).value);
  };
  const Node* data = nullptr;
  for (const Node& node : kernel.nodes) {
    if (node.op != Op::load || among(node)) continue;
    if (data == nullptr || stored(node).storage_elements > stored(*data).storage_elements) data = &node;
  }
  if (data == nullptr) return 0;
  int along = -1;
  for (int v = 0; v < static_cast<int>(kernel.space.extents.size()); ++v) {
    const std::int64_t stride = std::abs(data->index.coefficient_of(v));
    if (stride != 0 && (along < 0 || stride < std::abs(data->index.coefficient_of(along)))) along = v;
  }
  double bytes = 0;
  std::set<int> seen;
  for (const Node& node : kernel.nodes) {
    if (!among(node) || along < 0 || !node.index.depends_on(along) || !seen.insert(node.input).second) continue;
    bool swept = false;
    for (int v = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
         v < static_cast<int>(kernel.space.extents.size()); ++v)
      swept = swept || node.index.depends_on(v);
    const auto points = static_cast<double>(kernel.outer_extent() * (swept ? kernel.inner_extent() : 1));
    bytes += (points - static_cast<double>(stored(node).storage_elements)) * static_cast<double>(size_of(node.dtype));
  }
  return std::max(bytes, 0.0);
}

std::vector<int> united(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> result;
  std::ranges::set_union(a, b, std::back_inserter(result));
  return result;
}

}  // namespace

std::optional<Statistics> statistics_between(const ir::Graph& graph, const Usage& usage, const std::set<int>& nodes,
                                             const std::vector<int>& given, const std::vector<int>& outputs,
                                             bool folds) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const int v : outputs) least = std::min(least, graph.values[static_cast<std::size_t>(v)].elements());
  Cut cut(graph, usage, nodes, given, least / 2, folds);
  for (const int v : outputs) {
    if (!cut.follow(v)) return std::nullopt;
  }
  Statistics found = cut.found();
  if (found.values.empty()) return std::nullopt;
  return found;
}

std::optional<std::vector<Unit*>> Units::kernels_that_read(const std::vector<int>& values) {
  std::vector<Unit*> readers;
  for (Unit& unit : units_) {
    if (!unit.alive) continue;
    const bool reads = std::ranges::any_of(values, [&](int v) {
      if (unit.kernel) {
        return std::ranges::any_of(unit.kernel->inputs, [&](const Input& input) { return input.value == v; });
      }
      const auto& users = usage_.users[static_cast<std::size_t>(v)];
      return std::ranges::any_of(users, [&](int user) { return unit.nodes.contains(user); });
    });
    if (!reads) continue;
    if (!unit.kernel) return std::nullopt;
    readers.push_back(&unit);
  }
  return readers;
}

void Units::keep_statistics_of(Unit& unit) {
  // What fills the kernel's space is what could be computed again; the others are written as before.
  std::vector<int> repeated, written;
  for (const Output& output : unit.kernel->outputs)
    (output.per_row || output.per_part ? written : repeated).push_back(output.value);
  const bool shown =
      std::ranges::any_of(repeated, [&](int v) { return !usage_.shown[static_cast<std::size_t>(v)].empty(); });
  if (repeated.empty() || shown) return;
  const auto statistics = statistics_between(graph_, usage_, unit.nodes, unit.given, repeated);
  const auto readers = kernels_that_read(repeated);
  if (!statistics || !readers || readers->empty()) return;
  std::ranges::sort(written);
  std::set<int> kept = unit.nodes;
  kept.insert(statistics->nodes.begin(), statistics->nodes.end());
  auto left = lower_outputs(kept, united(written, statistics->values), unit.given);
  if (!left) return;
  double saved = unit.bytes - left->bytes, added = left->flops - unit.flops;
  std::vector<std::pair<std::set<int>, Trial>> trials;
  for (const Unit* reader : *readers) {
    std::set<int> nodes = reader->nodes;
    nodes.insert(unit.nodes.begin(), unit.nodes.end());
    auto trial = lower_outputs(nodes, reader->outputs, united(united(reader->given, unit.given), statistics->values));
    if (!trial) return;
    saved += reader->bytes - trial->bytes - cached * read_again(trial->kernel, statistics->values);
    added += trial->flops - reader->flops;
    trials.emplace_back(std::move(nodes), std::move(*trial));
  }
  if (saved <= 0 || !worth(saved, added)) return;
  for (std::size_t i = 0; i < trials.size(); ++i)
    set(*(*readers)[i], std::move(trials[i].first), std::move(trials[i].second));
  set(unit, std::move(kept), std::move(*left));
}

void Units::keep_statistics() {
  for (Unit& unit : units_) {
    if (unit.alive && unit.kernel &&
        (unit.kernel->anchor == Anchor::row || unit.kernel->anchor == Anchor::segmented_row))
      keep_statistics_of(unit);
  }
}

}  // namespace planish::codegen
