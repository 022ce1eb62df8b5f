#pragma once

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "codegen/partition/partition.h"
#include "codegen/partition/usage.h"

/// Private to codegen/partition: greedy growth of kernels.
namespace planish::codegen {

/// Repeating work (a window over a value that is made inside makes it once for every tap) must cost less than the bytes
/// that it saves.
bool worth(double bytes_saved, double flops_added);

/// One kernel in the making, or one `aten` node. `nodes` excludes inlined ones.
struct Unit {
  std::set<int> nodes;
  std::vector<int> outputs;
  std::vector<int> given;        ///< values that another unit stores, although nodes here could make them; ascending
  std::optional<Kernel> kernel;  ///< null: aten
  double bytes = 0, flops = 0;
  bool alive = true;
  bool aside = false;  ///< kernels of its own compute it (set_aside())
  int version = 0;     ///< grows with every change, so that failed attempts are not repeated
};

class Units {
 public:
  Units(const ir::Graph& graph, const Usage& usage, const PartitionOptions& options);

  /// Leaves nodes that these groups compute to them: each is a unit that joins no other. Of a node in several groups
  /// the first one's unit is said to make it.
  void set_aside(std::span<const std::set<int>> groups);
  /// Joins producers with consumers, then kernels that read the same values; repeats while something changes.
  void fuse();
  /// One launch for small results of one size that the caller alone reads (the counters of many batch norms), and one
  /// for those that follow from the caller's tensors alone (the places of many caches): a launch takes longer than all
  /// of them.
  void gather_counters();
  /// One launch for places of several tensors that are as many and do not wait for each other: a layer's keys and
  /// values.
  void gather_writes();
  /// Repeats pointwise producers inside all their readers where that moves no more bytes.
  void duplicate();
  /// Joins what must be stored with what is folded of it (`relu(x)` and its sum): one pass stores and folds. Comes
  /// after duplicate(), which knows a better way for what need not be stored.
  void fuse_with_stores();
  /// Where what a row kernel (or one that folds parts of rows) writes is read by kernels alone, and follows element
  /// by element from its inputs and from a few values a row: stores those values instead, and repeats the rest inside
  /// all readers, if fewer bytes move.
  void keep_statistics();
  /// Stores a view of a result in place of the result, where only that view is returned.
  void absorb_output_views();

  const std::vector<Unit>& all() const { return units_; }

 private:
  struct Trial {
    Kernel kernel;
    std::vector<int> outputs, given;
    double bytes = 0, flops = 0;
  };
  std::optional<Trial> try_nodes(const std::set<int>& nodes) const;
  std::optional<Trial> lower_outputs(const std::set<int>& nodes, std::vector<int> outputs,
                                     std::vector<int> given = {}) const;
  void grow();
  /// Joins units of one size that are `taken`, up to so many nodes each.
  void gather(std::size_t most, const std::function<bool(int)>& taken);
  void keep_statistics_of(Unit& unit);
  /// Units that read one of the values; null where one of them is not a kernel.
  std::optional<std::vector<Unit*>> kernels_that_read(const std::vector<int>& values);
  std::vector<int> outputs_of(const std::set<int>& nodes) const;
  bool join(int a, int b);
  /// A path from a to b that passes through at least one other unit (or, with `direct`, any path).
  bool reaches(int a, int b, bool direct) const;
  /// Units that read what this one makes.
  std::vector<int> consumers(int unit) const;
  std::vector<int> readers_of(const Unit& unit) const;
  bool repeats_nothing(const Unit& unit) const;
  void set(Unit& unit, std::set<int> nodes, Trial trial);

  const ir::Graph& graph_;
  const Usage& usage_;
  LowerLimits limits_;
  std::vector<Unit> units_;
  std::vector<int> unit_of_;  ///< by node; -1 for inlined and unneeded ones
  std::set<std::array<int, 4>> failed_;
  bool repeated_ = false;  ///< nodes may be in several units
};

}  // namespace planish::codegen
