#pragma once

#include <array>
#include <optional>
#include <set>
#include <vector>

#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition: greedy growth of kernels.
namespace planish::codegen {

/// One kernel in the making, or one `aten` node. `nodes` excludes inlined ones.
struct Unit {
  std::set<int> nodes;
  std::vector<int> outputs;
  std::optional<Kernel> kernel;  ///< null: aten
  double bytes = 0, flops = 0;
  bool alive = true;
  int version = 0;  ///< grows with every change, so that failed attempts are not repeated
};

class Units {
 public:
  Units(const ir::Graph& graph, const Usage& usage, const PartitionOptions& options);

  /// Joins producers with consumers, then kernels that read the same values; repeats while something changes.
  void fuse();
  /// Repeats pointwise producers inside all their readers where that moves no more bytes.
  void duplicate();
  /// Stores a view of a result in place of the result, where only that view is returned.
  void absorb_output_views();

  const std::vector<Unit>& all() const { return units_; }

 private:
  struct Trial {
    Kernel kernel;
    std::vector<int> outputs;
    double bytes = 0, flops = 0;
  };
  std::optional<Trial> try_nodes(const std::set<int>& nodes) const;
  std::optional<Trial> lower_outputs(const std::set<int>& nodes, std::vector<int> outputs) const;
  std::vector<int> outputs_of(const std::set<int>& nodes) const;
  bool join(int a, int b);
  /// A path from a to b that passes through at least one other unit (or, with `direct`, any path).
  bool reaches(int a, int b, bool direct) const;
  std::vector<int> consumers(int unit) const;
  void set(Unit& unit, std::set<int> nodes, Trial trial);

  const ir::Graph& graph_;
  const Usage& usage_;
  const PartitionOptions& options_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;  ///< by node; -1 for inlined and unneeded ones
  std::set<std::array<int, 4>> failed_;
};

}  // namespace planish::codegen
