#include "codegen/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "codegen/kernel_key.h"
#include "codegen/partition/decode_groups.h"
#include "codegen/partition/eight_bit_groups.h"
#include "codegen/partition/regions.h"
#include "codegen/partition/skinny_groups.h"
#include "codegen/partition/units.h"

namespace planish::codegen {
namespace {

/// A matrix product by itself. What can be one kernel with it is for fusion_plans() to find: the library's product and
/// a kernel for the rest are what a fused one has to beat.
std::optional<Region> contraction_alone(const ir::Graph& graph, const Usage& usage, const Unit& unit,
                                        const LowerLimits& limits) {
  if (unit.nodes.size() != 1 || unit.aside) return std::nullopt;
  const auto node = static_cast<std::size_t>(*unit.nodes.begin());
  if (!contracts(graph.nodes[node].op)) return std::nullopt;
  std::vector<bool> inside = usage.inlined;
  inside[node] = true;
  std::vector<int> outputs;
  for (const auto& out : graph.nodes[node].outs) {
    if (out) outputs.push_back(*out);
  }
  auto kernel = lower(graph, inside, outputs, limits);
  if (!kernel) return std::nullopt;
  return region_of(graph, usage, unit.nodes, std::move(*kernel), {});
}

/// The kernel with every input's reads moved together towards its first element, as far as no alignment shows it.
Kernel moved_to_the_front(Kernel kernel) {
  constexpr std::int64_t vector = 16;  // bytes: what is legal never hangs on more
  constexpr auto unread = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> begin(kernel.inputs.size(), unread);
  for (const Node& node : kernel.nodes) {
    if (node.op != Op::load) continue;
    auto& least = begin[static_cast<std::size_t>(node.input)];
    least = std::min(least, node.index.constant_term());
  }
  for (Node& node : kernel.nodes) {
    if (node.op != Op::load) continue;
    const auto input = static_cast<std::size_t>(node.input);
    const std::int64_t step = vector / size_of(kernel.inputs[input].dtype);
    const std::int64_t moved = std::max<std::int64_t>(begin[input], 0) / step * step;
    if (moved > 0) node.index = ir::IndexExpr::build(node.index.constant_term() - moved, node.index.terms());
  }
  return kernel;
}

template <typename Bytes>
std::string key_of(const Region& region, const Bytes& bytes_of) {
  if (region.before.empty() && !region.library) return sha256_hex(bytes_of(region.kernel));
  // How the kernels are joined, by numbers that do not depend on the place in the graph.
  std::map<int, std::size_t> number;
  for (const int v : region.inputs) number.emplace(v, number.size());
  std::string all;
  const auto stage = [&](const Region& one, const std::vector<int>& inputs, const std::vector<int>& outputs) {
    if (one.library) all += one.library->op + " ";
    for (const int v : inputs) all += fmt::format("{} ", number.emplace(v, number.size()).first->second);
    all += "->";
    for (const int v : outputs) all += fmt::format(" {}", number.emplace(v, number.size()).first->second);
    all += "\n" + bytes_of(one.kernel) + "\n";
  };
  for (const Region& one : region.before) stage(one, one.inputs, one.outputs);
  stage(region, region.before.empty() ? region.inputs : region.reads, region.outputs);
  return sha256_hex(all);
}

}  // namespace

Result<Partition> partition(const ir::Graph& graph, const PartitionOptions& options) {
  std::vector<Region> regions;
  const Usage usage(graph);
  if (options.fuse) {
    PartitionOptions streaming = options;
    streaming.limits.contractions = streaming.limits.grouped = false;
    Units units(graph, usage, streaming);
    if (options.limits.contractions) {
      std::vector<std::set<int>> aside;
      const auto take = [&](auto groups) {
        for (auto& group : groups) {
          regions.push_back(region_of(graph, usage, group.nodes, std::move(group.kernel), {}));
          aside.push_back(std::move(group.nodes));
        }
      };
      take(skinny_groups(graph, usage, options.limits));
      std::set<int> taken;
      for (const std::set<int>& group : aside) taken.insert(group.begin(), group.end());
      take(decode_groups(graph, usage, options.limits, taken));
      for (const std::set<int>& group : aside) taken.insert(group.begin(), group.end());
      take(eight_bit_groups(graph, usage, options.limits, taken));
      units.set_aside(aside);
    }
    units.fuse();
    units.gather_counters();
    units.gather_writes();
    units.duplicate();
    units.fuse_with_stores();
    units.keep_statistics();
    units.absorb_output_views();
    for (const Unit& unit : units.all()) {
      if (unit.alive && unit.kernel) regions.push_back(region_of(graph, usage, unit.nodes, *unit.kernel, unit.given));
      if (unit.alive && !unit.kernel && (options.limits.contractions || options.limits.grouped))
        if (auto region = contraction_alone(graph, usage, unit, options.limits)) regions.push_back(std::move(*region));
    }
  }
  auto result = arrange(graph, std::move(regions));
  if (result || !options.fuse) return result;
  // Two kernels that wait for each other (through a value read for its shape alone): rare enough to give up fusion.
  PartitionOptions plain = options;
  plain.fuse = false;
  return partition(graph, plain);
}

std::string canonical_key(const Region& region) {
  return key_of(region, kernel_key_bytes);
}

std::string schedule_key(const Region& region) {
  return key_of(region, [](const Kernel& kernel) { return kernel_key_bytes(moved_to_the_front(kernel)); });
}

Cost cost(const Region& region) {
  Cost all = cost(region.kernel);
  for (const Region& one : region.before) {
    // A view moves nothing.
    if (one.library && classify(one.library->op) == OpClass::view) continue;
    const Cost more = cost(one.kernel);
    all.bytes += more.bytes;
    all.flops += more.flops;
    all.products += more.products;
    all.tensor_flops += more.tensor_flops;
  }
  return all;
}

}  // namespace planish::codegen
