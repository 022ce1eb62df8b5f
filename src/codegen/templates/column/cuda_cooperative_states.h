#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/templates/column/cuda_column_states.h"

/// Prints how the blocks of a team find a row's reductions with plain additions: nothing divides an element's or a
/// lane's work. A thread takes a chunk of vectors at a time, first what the chunk says alone (sum, maximum), then what
/// is relative to that (squares, exponentials), and joins it to what it has by known counts. Lanes, warps, blocks and
/// the team do the same: the leader's result first, then what the follower adds up relative to it.
///
/// Where rows lie along memory all lanes of a thread share one state; along columns each lane has its own.
///
/// Names in the printed text, beside those of cuda_column_states.h: `part0`/`top0` what a chunk says alone, `seen0` how
/// many elements it has, `here0` its mean, `over0` one over the count so far.
namespace planish::codegen::printing {

/// Kernel, plan and writer outlive it. One thread.
class CooperativeStates : public ColumnStates {
 public:
  using ColumnStates::ColumnStates;

  /// What pairs do with an element, chunk by chunk; a chunk is `counted` where threads may lack some of its elements.
  std::string first_look(const Fold& fold, const std::string& x, bool counted) const;
  std::string second_look(const Fold& fold, const std::string& x) const;
  /// Beside the first look, of a whole vector.
  void count_vector(const std::vector<Fold>& folds, bool counted);
  /// Variables of a sweep, beside the states; of a chunk; and the chunk joined to the states, between the two looks.
  void begin_sweep(const std::vector<Fold>& folds);
  void begin_again(const std::vector<Fold>& folds);
  void begin_chunk(const std::vector<Fold>& folds, bool counted);
  void join_chunk(const std::vector<Fold>& folds, bool counted);
  /// Rows: the lanes of each thread become one state, in a<r>[0].
  void end_sweep(const std::vector<Fold>& folds);

  /// Rows: the threads' states become their warps', which lie where the block meets. `turn` counts rows: with a scout
  /// two take turns.
  void leave_warps(const std::vector<Fold>& folds, const std::string& turn);
  /// One warp, `tid` its lanes: the warps' states become the block's, which its first thread leaves in scratch.
  void leave_block(const std::vector<Fold>& folds, const std::string& turn, const std::string& number);
  /// One warp: merges what the blocks of the team leave at their meeting `number`, for `tell` to give to all threads.
  void merge_blocks(const std::vector<Fold>& folds, const std::string& turn, const std::string& number);
  void tell(const std::vector<Fold>& folds, const std::string& turn);

 protected:
  /// True where all lanes of a thread share one state.
  bool shares_lanes() const { return team() && !base_.columns; }

 private:
  class Joint;  // cuda_cooperative_joints.h
  class Exponentials;
  class Deviations;
  static const Joint& joint_of(const Fold& fold);
  std::string lane() const { return shares_lanes() ? "[0]" : "[j]"; }
  /// a[0], a[1], … put together in a tree, by additions or by the maximum.
  std::string tree(const std::string& name, ReduceKind kind = ReduceKind::sum) const;
  void butterfly(const std::string& variable, int count, bool maximum = false);
  /// Of so many neighbouring lanes of a warp: all of them hold the result.
  void across(const Fold& fold, int count);
  /// Where block `slice` leaves a field at meeting `number`. Meetings take turns between two sets of words: a block
  /// that leaves its state of the next one but one knows that all have read this one.
  std::string word(const Fold& fold, const FoldField& field, const std::string& number, const std::string& slice) const;
  /// Elements of slice `slice`, an expression.
  std::string count_of(const std::string& slice) const;
  int warps() const { return base_.threads / 32; }
  /// "h3q[…]": a place where the block meets, `warps()` that of the whole row.
  std::string met(const Fold& fold, const FoldField& field, const std::string& place, const std::string& turn) const;
  void meeting(const std::vector<Fold>& folds) { places(folds, (warps() + 1) * (plan_.scouts() ? 2 : 1)); }
};

/// Helper functions that the texts call; after those of cuda_fold.h.
std::string_view cooperative_fold_prelude();

}  // namespace planish::codegen::printing
