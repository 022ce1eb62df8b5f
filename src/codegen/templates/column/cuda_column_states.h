#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/emit/cuda_fold.h"
#include "codegen/emit/cuda_writer.h"
#include "codegen/templates/column/cuda_column_plan.h"

/// Prints what the column schedule does with the states of reductions: threads of a block meet and merge theirs, blocks
/// leave them in scratch and gather those of others, and results are made of them.
///
/// Names in the printed text: `a3q[j]` field q of reduction 3's state in lane j, `h3q` the same of other threads in
/// shared memory, `z3q` one that is being merged, `red3` the result.
namespace planish::codegen::printing {

/// Kernel, plan and writer outlive it. One thread.
class ColumnStates {
 public:
  ColumnStates(const Kernel& kernel, const ColumnPlan& plan, CudaWriter& writer)
      : kernel_(kernel), plan_(plan), base_(plan.base), w(writer) {}

  /// The states a<r> of a block's threads become one, held by all of them.
  void meet(const std::vector<Fold>& folds);
  /// One thread a row leaves the block's states in scratch.
  void leave(const std::vector<Fold>& folds);
  /// Declares a<r> and merges the states that all slices left into it, each thread some of them.
  void gather(const std::vector<Fold>& folds);
  /// Declares red<r> and sets it to what a<r> says.
  void results(const std::vector<Fold>& folds);
  /// Sums of exponentials are relative to the maximum: makes them relative to what the kernel subtracts.
  void finish(const std::vector<Fold>& folds);

 protected:
  bool team() const { return plan_.teams != 0; }
  std::string exponential() const { return base_.fast ? "pl_fast_exp" : "expf"; }
  static FieldName spelled(std::string prefix, int reduction, std::string lane);
  /// A loop over the lanes of a vector.
  void lanes(const std::function<void()>& body);
  std::string merged(const Fold& fold, const FieldName& a, const FieldName& b) const;
  /// Variables of a state that has seen nothing.
  void declare(const std::string& prefix, const Fold& fold);

  /// Merges the states a<r>[0] of each group of so many lanes; all of them hold the result.
  void across_lanes(const Fold& fold, int count);
  /// Declares h<r><field>: arrays of `count` elements in the block's meeting place.
  void places(const std::vector<Fold>& folds, std::int64_t count);
  /// Where a slice's field lies in scratch.
  std::string partial(const Fold& fold, const FoldField& field, const std::string& slice) const;

  const Kernel& kernel_;
  const ColumnPlan& plan_;
  const CudaPlan& base_;
  CudaWriter& w;

 private:
  void meet_columns(const std::vector<Fold>& folds);
  void meet_rows(const std::vector<Fold>& folds);
  std::int64_t place_of(int reduction, const std::string& suffix, std::int64_t count) const;
};

}  // namespace planish::codegen::printing
