#include "codegen/partition/partition.h"

#include <utility>

#include "base/hash.h"
#include "codegen/partition/regions.h"
#include "codegen/partition/units.h"

namespace planish::codegen {

Result<Partition> partition(const ir::Graph& graph, const PartitionOptions& options) {
  std::vector<Region> regions;
  const Usage usage(graph);
  if (options.fuse) {
    Units units(graph, usage, options);
    units.fuse();
    units.gather_counters();
    units.duplicate();
    units.fuse_with_stores();
    units.keep_statistics();
    units.absorb_output_views();
    for (const Unit& unit : units.all()) {
      if (unit.alive && unit.kernel) regions.push_back(region_of(graph, usage, unit.nodes, *unit.kernel, unit.given));
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
  return sha256_hex(text(region.kernel));
}

}  // namespace planish::codegen
