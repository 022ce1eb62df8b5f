#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "codegen/partition/partition.h"

namespace planish::codegen {
namespace {

/// Turns regions of a rewritten graph into regions of the original one.
class Back {
 public:
  Back(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten, std::size_t local)
      : graph_(graph), base_(base), rewritten_(rewritten), local_(local), producers_(graph.producers()) {}

  Result<std::vector<Region>> regions(Partition found) {
    for (const Item& item : found.order) {
      if (!item.is_region) PLANISH_CHECK(check_step(rewritten_.nodes[static_cast<std::size_t>(item.index)]));
    }
    // In the order in which they can run, so that each comes after what it reads.
    std::vector<Region> made;
    std::vector<Region> first;  // those that give local values
    std::set<int> used;
    for (const Item& item : found.order) {
      if (!item.is_region) continue;
      Region& region = found.regions[static_cast<std::size_t>(item.index)];
      const auto own = std::ranges::count_if(region.outputs, [&](int v) { return is_local(v); });
      if (own == std::ssize(region.outputs)) {
        first.push_back(std::move(region));
      } else if (own != 0) {
        return fail("not_local", "a kernel gives values of both graphs");
      } else {
        PLANISH_TRY(Region back, original(std::move(region), first, used));
        made.push_back(std::move(back));
      }
    }
    return made;
  }

 private:
  bool is_local(int value) const { return static_cast<std::size_t>(value) >= local_; }

  Status check_step(const ir::GraphNode& node) const {
    bool crosses = false;
    for (const int v : ir::reads(node)) crosses = crosses || is_local(v);
    for (const auto& out : node.outs) crosses = crosses || (out && is_local(*out));
    if (crosses) return fail("not_local", node.op + " has no kernel");
    return {};
  }

  /// The region with the kernels of `first` before it that it needs. `used`: values that one before it took already.
  Result<Region> original(Region region, const std::vector<Region>& first, std::set<int>& used) const {
    for (const Region& same : base_.regions) {
      if (same.inputs == region.inputs && same.outputs == region.outputs &&
          canonical_key(same) == canonical_key(region))
        return same;
    }
    if (!region.given.empty()) return fail("not_local", "a kernel is given statistics of a node that is not there");
    std::set<int> wanted;
    for (const int v : region.inputs) {
      if (is_local(v)) wanted.insert(v);
    }
    std::vector<Region> before;
    for (auto one = first.rbegin(); one != first.rend(); ++one) {
      if (std::ranges::none_of(one->outputs, [&](int v) { return wanted.contains(v); })) continue;
      for (const int v : one->outputs) {
        if (!used.insert(v).second) return fail("not_local", "two kernels read one value of the rewritten graph");
        wanted.erase(v);
      }
      for (const int v : one->inputs) {
        if (is_local(v)) wanted.insert(v);
      }
      before.insert(before.begin(), *one);
    }
    if (!wanted.empty()) return fail("not_local", "a value of the rewritten graph is made by no kernel before");
    if (!before.empty()) {
      region.reads = region.inputs;
      for (const Region& one : before) region.inputs.insert(region.inputs.end(), one.inputs.begin(), one.inputs.end());
      region.before = std::move(before);
    }
    std::vector<int> inputs;
    for (const int v : region.inputs) {
      if (!is_local(v) && std::ranges::find(inputs, v) == inputs.end()) inputs.push_back(v);
    }
    region.inputs = std::move(inputs);
    set_nodes(region);
    return region;
  }

  /// What of the original graph makes the outputs of the inputs. Inputs of the graph that it reads besides become the
  /// region's.
  void set_nodes(Region& region) const {
    std::set<int> nodes;
    std::vector<int> todo = region.outputs;
    std::set<int> known(region.inputs.begin(), region.inputs.end());
    while (!todo.empty()) {
      const int v = todo.back();
      todo.pop_back();
      if (!known.insert(v).second) continue;
      const int node = producers_[static_cast<std::size_t>(v)];
      if (node < 0) {
        region.inputs.push_back(v);
        continue;
      }
      nodes.insert(node);
      for (const int read : ir::reads(graph_.nodes[static_cast<std::size_t>(node)])) todo.push_back(read);
    }
    region.nodes.assign(nodes.begin(), nodes.end());
  }

  const ir::Graph& graph_;
  const Partition& base_;
  const ir::Graph& rewritten_;
  std::size_t local_;
  std::vector<int> producers_;
};

}  // namespace

Result<Partition> partition_rewritten(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten,
                                      std::size_t local, const PartitionOptions& options) {
  PLANISH_TRY(Partition found, partition(rewritten, options));
  PLANISH_TRY(auto regions, Back(graph, base, rewritten, local).regions(std::move(found)));
  return arrange(graph, std::move(regions));
}

}  // namespace planish::codegen
