#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/emit/cuda_pattern.h"
#include "codegen/kernel.h"

/// What has been seen of one reduction so far, as variables that can be merged: by lanes, threads, blocks and launches
/// alike. Pure; thread-safe.
namespace planish::codegen::printing {

struct FoldField {
  std::string suffix, type, neutral;
  int bytes = 4;
  bool counts = false;  ///< how many elements were seen, which may be known without
};

class FoldState;
class JointState;

struct Fold {
  const FoldState* state = nullptr;
  const JointState* joint = nullptr;  ///< the same, where the state is that of two reductions
  int reduction = 0;
  int follower = -1;    ///< joint: the reduction that is computed along
  int x = -1;           ///< node that is folded
  bool rising = false;  ///< positions: a thread meets them in rising order, the first of all being 0
  int base = -1;        ///< joint: node that the follower's argument subtracts
  std::vector<FoldField> fields;
};

/// How a field is spelled, by its suffix.
using FieldName = std::function<std::string(const std::string& suffix)>;

/// One kind of state, as algebra: all that the writers know of it. Objects without state.
class FoldState {
 public:
  virtual ~FoldState() = default;
  /// The variables, each as it is before anything was seen.
  virtual std::vector<FoldField> identity(const Kernel& kernel, const Reduction& reduction) const = 0;
  /// Statement that folds one element into `a`, whose node is spelled `value`, its position `at`. Joint states take
  /// elements by chunks instead.
  virtual std::string absorb(const Kernel& kernel, const Fold& fold, const FieldName& a, const std::string& value,
                             const std::string& at) const = 0;
  /// Statements that merge the state `b` into `a`. `exponential` names the function to use.
  virtual std::string merge(const Kernel& kernel, const Fold& fold, std::string_view exponential, const FieldName& a,
                            const FieldName& b) const = 0;
  /// Statements that set `result`, and a joint state's `follower`, to what the state says.
  virtual std::vector<std::string> finish(const Fold& fold, const FieldName& a, const std::string& result,
                                          const std::string& follower) const = 0;
};

/// Of two reductions, the second relative to the first's result: a chunk of elements is looked at twice, first for what
/// it says by itself, then relative to that. These are the texts of a state for each lane, in arrays a<r><field>[j].
class JointState : public FoldState {
 public:
  virtual JointKind kind() const = 0;
  std::string absorb(const Kernel&, const Fold&, const FieldName&, const std::string&, const std::string&) const final {
    return {};
  }
  /// Declares what a chunk says by itself, in vectors of `width` lanes.
  virtual std::string begin_chunk(int r, int width) const = 0;
  virtual std::string first_look(int r, const std::string& x) const = 0;
  /// Moves the state, between the looks, to where the chunk is.
  virtual std::vector<std::string> join_chunk(int r, std::string_view exponential) const = 0;
  virtual std::string second_look(int r, const std::string& x, std::string_view exponential) const = 0;
  /// Whether the follower's result is relative to the leader's. Then: statement that makes it relative to `base`, what
  /// the kernel subtracts (empty: the leader's result itself).
  virtual bool relative() const { return false; }
  virtual std::string rebase(const std::string& /*leader*/, const std::string& /*follower*/,
                             const std::string& /*base*/) const {
    return {};
  }
};

/// Folds of a phase, in order; those of the next phase that `pairs` let follow are part of them.
std::vector<Fold> folds_of(const Kernel& kernel, const std::vector<OnlinePair>& pairs, int phase);
/// "V, V, …", once for each of so many lanes.
std::string each_lane(std::string_view value, int width);
/// Helper functions that the texts call.
std::string_view fold_prelude();

/// Where a running maximum starts: finite, so that differences from it are never inf - inf.
inline constexpr std::string_view fold_bottom = "(-0x1.fffffep+127f)";

}  // namespace planish::codegen::printing
