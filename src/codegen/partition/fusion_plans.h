#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "codegen/genome.h"
#include "codegen/partition/partition.h"

/// Other ways to cut a graph than the one that moves the fewest bytes. partition() decides by a model of cost; what
/// these are worth, a search measures.
namespace planish::codegen {

/// In place of some kernels of a partition, others that make the same values.
struct FusionPlan {
  std::vector<std::size_t> replaces;  ///< indices of Partition::regions, ascending
  std::vector<Region> by;             ///< each after what it reads
  double seconds = 0;                 ///< the least that `by` takes, launches included
};

struct FusionOptions {
  std::size_t most_a_region = 4;  ///< of the ways to cut one kernel in two, those that may take the least time
  std::size_t most_joined = 4;    ///< likewise of kinds of kernels that can be one
  std::size_t most_tried = 64;    ///< ways that are looked at, of each kernel and of kinds of joining
  LowerLimits limits;
  /// Values from there on are a rewritten graph's own: no product gives such beside others.
  std::size_t local = std::numeric_limits<std::size_t>::max();
};

/// One kernel in place of two, or of all those of one size that wait for nothing of each other (whatever the model of
/// cost says), and two in place of one: cut
/// behind any value that is made inside, which is then stored, or made again from stored values by the reader where
/// that moves less; two in place of a product and what reads it, cut elsewhere; and what several readers of a product
/// compute of it first, computed where it is made. Deterministic. Equal kernels
/// (layers) have each their own ways to do the same. Each can be put into the partition alone, and with others that
/// replace other regions as long as arrange() finds an order. `partition` must be of that graph; `device` weighs bytes,
/// work and launches.
std::vector<FusionPlan> fusion_plans(const ir::Graph& graph, const Partition& partition, const Device& device,
                                     const FusionOptions& options = {});

/// The partition with every product computing what its readers share, and taking in, one after the other, the kernels
/// behind it that compute element by element or fold windows, where one kernel moves less than two: where the device's
/// template for products takes them along for little, that is what a search should look at first. The other way, a
/// product that PyTorch may run and a kernel for the rest, is among fusion_plans() of what this gives.
Partition with_epilogues(const ir::Graph& graph, Partition partition, const Device& device,
                         const FusionOptions& options = {});

/// partition_rewritten() of a partition with_epilogues(): a product of the rewritten graph takes in what lies behind it
/// as others do. `base` is such a partition too. Where values would not be local then, products stay as they are.
Result<Partition> rewritten_with_epilogues(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten,
                                           std::size_t local, const Device& device, const FusionOptions& options);

/// The partition with these in place. Kind `cycle` where they wait for each other.
Result<Partition> fuse_by(const ir::Graph& graph, const Partition& partition,
                          const std::vector<const FusionPlan*>& chosen);

}  // namespace planish::codegen
