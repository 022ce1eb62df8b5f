#include "codegen/partition/partition.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "codegen/kernel_key.h"
#include "codegen/partition/regions.h"
#include "codegen/partition/units.h"

namespace planish::codegen {
namespace {

/// A matrix product by itself. What can be one kernel with it is for fusion_plans() to find: the library's product and
/// a kernel for the rest are what a fused one has to beat.
std::optional<Region> contraction_alone(const ir::Graph& graph, const Usage& usage, const Unit& unit,
                                        const LowerLimits& limits) {
  if (unit.nodes.size() != 1) return std::nullopt;
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

}  // namespace

Result<Partition> partition(const ir::Graph& graph, const PartitionOptions& options) {
  std::vector<Region> regions;
  const Usage usage(graph);
  if (options.fuse) {
    PartitionOptions streaming = options;
    streaming.limits.contractions = false;
    Units units(graph, usage, streaming);
    units.fuse();
    units.gather_counters();
    units.duplicate();
    units.fuse_with_stores();
    units.keep_statistics();
    units.absorb_output_views();
    for (const Unit& unit : units.all()) {
      if (unit.alive && unit.kernel) regions.push_back(region_of(graph, usage, unit.nodes, *unit.kernel, unit.given));
      if (unit.alive && !unit.kernel && options.limits.contractions)
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
  if (region.before.empty() && !region.library) return sha256_hex(kernel_key_bytes(region.kernel));
  // How the kernels are joined, by numbers that do not depend on the place in the graph.
  std::map<int, std::size_t> number;
  for (const int v : region.inputs) number.emplace(v, number.size());
  std::string all;
  const auto stage = [&](const Region& one, const std::vector<int>& inputs, const std::vector<int>& outputs) {
    if (one.library) all += one.library->op + " ";
    for (const int v : inputs) all += fmt::format("{} ", number.emplace(v, number.size()).first->second);
    all += "->";
    for (const int v : outputs) all += fmt::format(" {}", number.emplace(v, number.size()).first->second);
    all += "\n" + kernel_key_bytes(one.kernel) + "\n";
  };
  for (const Region& one : region.before) stage(one, one.inputs, one.outputs);
  stage(region, region.before.empty() ? region.inputs : region.reads, region.outputs);
  return sha256_hex(all);
}

Cost cost(const Region& region) {
  Cost all = cost(region.kernel);
  for (const Region& one : region.before) {
    const Cost more = cost(one.kernel);
    all.bytes += more.bytes;
    all.flops += more.flops;
  }
  return all;
}

}  // namespace planish::codegen
