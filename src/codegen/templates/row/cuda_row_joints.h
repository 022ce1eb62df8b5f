#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "codegen/emit/cuda_pattern.h"
#include "codegen/emit/cuda_writer.h"

/// How the row schedule keeps joint states (see JointInfo): all lanes of a thread share the leader's part, so that
/// lanes, threads and blocks move what the follower adds up to one common result before they add.
///
/// Names in the printed text, r being the leader and f the follower: `acc<f>[j]`, `total<f>[j]` what the follower has
/// added up, `red<r>`, `red<f>` results.
namespace planish::codegen::printing {

/// Borrows all.
struct RowJointPrint {
  const Kernel& kernel;
  const CudaPlan& plan;
  CudaWriter& w;
  std::string exponential(std::string_view difference) const;
};

/// One kind of them. Objects without state.
class RowJoint {
 public:
  /// Statements that make `red<r>` of so many lanes one.
  using Butterfly = std::function<void(int r, int width)>;

  virtual ~RowJoint() = default;
  /// The thread's part of the leader's result, before anything was seen.
  virtual void declare(const RowJointPrint& p, const OnlinePair& pair) const = 0;
  /// What a chunk says by itself; `counted` where threads may lack some of its elements.
  virtual void begin_chunk(const RowJointPrint& p, const OnlinePair& pair, bool counted) const = 0;
  virtual std::string first_look(const OnlinePair& pair, const std::string& x, bool counted) const = 0;
  /// Moves the state to where the chunk is; with `totals`, those as well.
  virtual void join_chunk(const RowJointPrint& p, const OnlinePair& pair, bool totals) const = 0;
  virtual std::string second_look(const RowJointPrint& p, const OnlinePair& pair, const std::string& x) const = 0;
  /// The thread's part of the leader's result as one variable, and what that of an absent thread is; empty where the
  /// leader is folded like any other.
  virtual std::string leader(const OnlinePair& /*pair*/) const { return {}; }
  virtual std::string absent() const { return {}; }
  /// Whether threads exchange `count<r>` as well.
  virtual bool counts() const { return false; }
  /// Both results, over `width` lanes; `of_threads`: of what threads have, not of what was exchanged before.
  virtual void across(const RowJointPrint& p, const OnlinePair& pair, int width, bool of_threads,
                      const Butterfly& butterfly) const = 0;
  /// When all of the row is known: the leader's result, and what the kernel makes of the follower's.
  virtual void finish_leader(const RowJointPrint& /*p*/, const OnlinePair& /*pair*/) const {}
  virtual void finish_follower(const RowJointPrint& /*p*/, const OnlinePair& /*pair*/) const {}
};

const RowJoint& row_joint(JointKind kind);

}  // namespace planish::codegen::printing
