#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "codegen/lower/lower.h"
#include "codegen/partition/partition.h"
#include "codegen/partition/regions.h"
#include "codegen/partition/usage.h"

namespace planish::codegen {
namespace {

/// Turns regions of a rewritten graph into regions of the original one.
class Back {
 public:
  Back(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten, std::size_t local,
       const LowerLimits& limits)
      : graph_(graph),
        base_(base),
        rewritten_(rewritten),
        local_(local),
        limits_(limits),
        producers_(graph.producers()),
        usage_(rewritten) {}

  Result<std::vector<Region>> regions(Partition found) {
    // In the order in which they can run, so that each comes after what it reads.
    std::vector<Region> made;
    std::vector<Region> first;  // those that give local values
    std::set<int> used;
    for (const Item& item : found.order) {
      if (!item.is_region && is_captured(rewritten_.nodes[static_cast<std::size_t>(item.index)])) continue;
      Region region;
      if (item.is_region) {
        region = std::move(found.regions[static_cast<std::size_t>(item.index)]);
      } else {
        PLANISH_TRY(region, library(item.index));
      }
      // Memory that is written in part holds a value that both graphs have.
      if (std::ranges::any_of(region.kernel.outputs, [&](const Output& output) {
            return output.writes_places() && ((output.base >= 0 && is_local(output.base)) || is_local(output.value));
          }))
        return fail("not_local", "a kernel writes places of a value of the rewritten graph");
      const auto own = std::ranges::count_if(region.outputs, [&](int v) { return is_local(v); });
      if (own == std::ssize(region.outputs)) {
        first.push_back(std::move(region));
        continue;
      }
      if (own != 0) {
        PLANISH_TRY(Region locals, part(region, true));
        PLANISH_TRY(region, part(region, false));
        first.push_back(std::move(locals));
      }
      PLANISH_TRY(Region back, original(std::move(region), first, used));
      made.push_back(std::move(back));
    }
    return made;
  }

 private:
  bool is_local(int value) const { return static_cast<std::size_t>(value) >= local_; }

  /// Whether the captured graph has this node too, so that it stays the `aten` step it is.
  bool is_captured(const ir::GraphNode& node) const {
    for (const int v : ir::reads(node)) {
      if (is_local(v)) return false;
    }
    return std::ranges::all_of(node.outs, [&](const std::optional<int>& out) {
      const int maker = !out || is_local(*out) ? -1 : producers_[static_cast<std::size_t>(*out)];
      return maker >= 0 && graph_.nodes[static_cast<std::size_t>(maker)].op == node.op;
    });
  }

  /// A kernel that gives values of both graphs reads once what two read: here the one for local values, or the other.
  Result<Region> part(const Region& both, bool local) const {
    std::vector<bool> inside = usage_.inlined;
    for (const int n : both.nodes) inside[static_cast<std::size_t>(n)] = true;
    std::vector<int> outputs;
    std::ranges::copy_if(both.outputs, std::back_inserter(outputs), [&](int v) { return is_local(v) == local; });
    LowerLimits limits = limits_;
    limits.contractions = limits.grouped = false;
    auto kernel = lower(rewritten_, inside, outputs, limits, both.given);
    if (!kernel) return fail("not_local", "a kernel gives values of both graphs: " + kernel.error().message);
    return region_of(rewritten_, usage_, {both.nodes.begin(), both.nodes.end()}, std::move(*kernel), both.given);
  }

  /// A product or convolution that PyTorch runs, or a view that one of them reads. What it computes is said by the
  /// kernel that it would be.
  Result<Region> library(int index) const {
    const ir::GraphNode& node = rewritten_.nodes[static_cast<std::size_t>(index)];
    const bool known = contracts(node.op) || classify(node.op) == OpClass::view;
    if (node.outs.size() != 1 || !node.outs[0] || !known) return fail("not_local", node.op + " has no kernel");
    std::vector<bool> inside(rewritten_.nodes.size(), false);
    inside[static_cast<std::size_t>(index)] = true;
    LowerLimits limits = limits_;
    limits.contractions = limits.grouped = true;
    limits.narrow_products = false;
    limits.wide_heads = true;
    auto kernel = lower(rewritten_, inside, std::vector{*node.outs[0]}, limits);
    if (!kernel) return fail("not_local", node.op + " cannot be described: " + kernel.error().message);
    Region region = region_of(rewritten_, usage_, {index}, std::move(*kernel), {});
    // As the operator takes them: a kernel reads no operand that it can do without.
    region.inputs.clear();
    for (const int v : ir::reads(node)) {
      if (std::ranges::find(region.inputs, v) == region.inputs.end()) region.inputs.push_back(v);
    }
    region.library = node;
    return region;
  }

  /// The region with the kernels of `first` before it that it needs. `used`: values that one before it took already.
  Result<Region> original(Region region, const std::vector<Region>& first, std::set<int>& used) const {
    for (const Region& same : base_.regions) {
      if (same.inputs == region.inputs && same.outputs == region.outputs &&
          canonical_key(same) == canonical_key(region))
        return same;
    }
    // Local ones are values like others, which a kernel before makes. What both graphs have is read where it is stored.
    std::erase_if(region.given, [&](int v) { return is_local(v); });
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
  LowerLimits limits_;
  std::vector<int> producers_;
  Usage usage_;
};

}  // namespace

Result<Partition> partition_rewritten(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten,
                                      std::size_t local, const PartitionOptions& options) {
  PLANISH_TRY(Partition found, partition(rewritten, options));
  return partition_rewritten(graph, base, rewritten, local, std::move(found), options);
}

Result<Partition> partition_rewritten(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten,
                                      std::size_t local, Partition found, const PartitionOptions& options) {
  PLANISH_TRY(auto regions, Back(graph, base, rewritten, local, options.limits).regions(std::move(found)));
  return arrange(graph, std::move(regions));
}

}  // namespace planish::codegen
