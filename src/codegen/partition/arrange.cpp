#include <algorithm>
#include <map>
#include <queue>

#include "codegen/partition/partition.h"

namespace planish::codegen {
namespace {

/// Orders regions and aten nodes so that every value is made before it is read; ties go to the earlier place in the
/// graph.
class Order {
 public:
  Order(const ir::Graph& graph, std::vector<Region>& regions) : graph_(graph), producers_(graph.producers()) {
    for (std::size_t r = 0; r < regions.size(); ++r) {
      const int place = regions[r].nodes.empty() ? 0 : regions[r].nodes.back();
      add({true, static_cast<int>(r)}, place, regions[r].outputs, regions[r].inputs);
    }
  }

  /// Makes sure that an aten step, or a region, gives this value.
  void require(int value) {
    std::vector<int> todo{value};
    while (!todo.empty()) {
      const int v = todo.back();
      todo.pop_back();
      const int node = producers_[static_cast<std::size_t>(v)];
      if (node < 0 || maker_.contains(v)) continue;
      const auto& n = graph_.nodes[static_cast<std::size_t>(node)];
      std::vector<int> outs;
      for (const auto& out : n.outs) {
        if (out && !maker_.contains(*out)) outs.push_back(*out);
      }
      const std::vector<int> ins = ir::reads(n);
      add({false, node}, node, outs, ins);
      todo.insert(todo.end(), ins.begin(), ins.end());
    }
  }

  Result<std::vector<Item>> sorted() const {
    std::vector<std::vector<std::size_t>> next(items_.size());
    std::vector<int> waiting(items_.size(), 0);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      std::vector<std::size_t> before;
      for (const int v : items_[i].inputs) {
        const auto maker = maker_.find(v);
        if (maker != maker_.end()) before.push_back(maker->second);
      }
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
      for (const std::size_t b : before) {
        next[b].push_back(i);
        ++waiting[i];
      }
    }
    using Key = std::pair<int, std::size_t>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (waiting[i] == 0) ready.emplace(items_[i].place, i);
    }
    std::vector<Item> order;
    while (!ready.empty()) {
      const std::size_t i = ready.top().second;
      ready.pop();
      order.push_back(items_[i].item);
      for (const std::size_t n : next[i]) {
        if (--waiting[n] == 0) ready.emplace(items_[n].place, n);
      }
    }
    if (order.size() != items_.size()) return fail("cycle", "these kernels wait for each other");
    return order;
  }

 private:
  struct Entry {
    Item item;
    int place;
    std::vector<int> inputs;
  };
  void add(Item item, int place, const std::vector<int>& outputs, std::vector<int> inputs) {
    for (const int v : outputs) maker_.emplace(v, items_.size());
    items_.push_back({item, place, std::move(inputs)});
  }

  const ir::Graph& graph_;
  std::vector<int> producers_;
  std::vector<Entry> items_;
  std::map<int, std::size_t> maker_;
};

}  // namespace

Result<Partition> arrange(const ir::Graph& graph, std::vector<Region> regions) {
  Partition result;
  result.regions = std::move(regions);
  std::ranges::sort(result.regions, {}, [](const Region& region) { return region.nodes.back(); });
  Order order(graph, result.regions);
  for (const Region& region : result.regions) {
    for (const int v : region.inputs) order.require(v);
  }
  for (const auto& output : graph.outputs) {
    if (output.value >= 0) order.require(output.value);
  }
  PLANISH_TRY(result.order, order.sorted());
  return result;
}

}  // namespace planish::codegen
