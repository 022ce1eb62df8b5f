#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"
#include "codegen/lower/lower.h"
#include "ir/graph.h"

/// Cuts a graph into fused kernels and single `aten` steps. Every graph partitions: what cannot be lowered stays
/// `aten`.
namespace planish::codegen {

/// A fused kernel and the part of the graph it stands for.
struct Region {
  Kernel kernel;
  std::vector<int> nodes;    ///< graph node indices, ascending, views that were inlined included; enough to compute the
                             ///< outputs from the inputs
  std::vector<int> inputs;   ///< value ids, in the order of Kernel::inputs; then what the nodes need beyond the kernel
                             ///< (shapes, weights of a norm whose statistics alone are wanted)
  std::vector<int> outputs;  ///< value ids, in the order of Kernel::outputs
  std::vector<int> given;    ///< of the inputs, those that nodes here could make, or that stand for what they do make:
                             ///< the statistics of a norm that another kernel stores; ascending
  /// Kernels of a rewritten graph that run before `kernel`, each after what it reads. Values that only the rewritten
  /// graph has (local ones) pass from one to the next; the region's `nodes` are the original ones, at whose boundary it
  /// is judged.
  std::vector<Region> before;
  std::vector<int> reads;  ///< where there are kernels before: value ids of Kernel::inputs, in order, local ones too
  /// A node of a rewritten graph that PyTorch's own operator runs in place of `kernel`, which says what it computes and
  /// costs, and has no genes (decision 0076). It gives the one output.
  std::optional<ir::GraphNode> library;
};

/// What the kernels before and `kernel` itself cost.
Cost cost(const Region& region);

/// One step of the whole: a region, or one graph node run by `aten`.
struct Item {
  bool is_region = false;
  int index = -1;  ///< into Partition::regions, or a graph node index
};

struct Partition {
  std::vector<Region> regions;
  std::vector<Item> order;  ///< executable in this order
};

struct PartitionOptions {
  bool fuse = true;  ///< false: every node that is needed is an `aten` step
  LowerLimits limits;
};

/// These regions, and `aten` steps for all else that the outputs need, each after what it reads: an executable whole.
/// Regions come in the order of their places in the graph. Kind `cycle` where two of them wait for each other.
Result<Partition> arrange(const ir::Graph& graph, std::vector<Region> regions);

/// Deterministic. Fails only for a graph whose indices are out of range (parse_graph never gives one).
Result<Partition> partition(const ir::Graph& graph, const PartitionOptions& options = {});

/// The partition of the task that `rewritten` stands for, which has the inputs, outputs and values of `graph`, and
/// values of its own from `local` on: regions read and write values of `graph` alone. `base` is the partition of
/// `graph`, whose regions stay where they can. A product or convolution that PyTorch runs is part of the region of the
/// kernels whose values it reads, or that read its own. Kind `not_local` where a value of the rewritten graph's own
/// would have to lie between two regions, or beside another `aten` step.
Result<Partition> partition_rewritten(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten,
                                      std::size_t local, const PartitionOptions& options = {});
/// The same of a partition of the rewritten graph.
Result<Partition> partition_rewritten(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten,
                                      std::size_t local, Partition found, const PartitionOptions& options);

/// The hash of what the region's kernels compute and how they are joined (kernel_key.h): equal for regions that compute
/// the same from equally laid out inputs, whatever their place in the graph and whatever anything is called.
std::string canonical_key(const Region& region);

/// The same for regions that also differ in where their reads of an input begin, each as well aligned as the other: the
/// steps of an unrolled loop, each with its slice of one tensor. What schedules one schedules all of them, though each
/// is emitted for itself.
std::string schedule_key(const Region& region);

}  // namespace planish::codegen
