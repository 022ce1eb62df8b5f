#pragma once

#include <functional>
#include <string>

#include "codegen/templates/column/cuda_cooperative_states.h"

namespace planish::codegen::printing {

/// What the blocks of a team do with one kind of joint state (see JointState): a chunk, a thread, lanes, warps and
/// blocks each give the leader's result first, then what the follower adds up relative to it. Objects without state;
/// `r` is the leader's reduction.
class CooperativeStates::Joint {
 public:
  /// A loop over the blocks' states that a lane merges.
  using Blocks = std::function<void(const std::function<void()>& body)>;

  virtual ~Joint() = default;
  virtual std::string first_look(const CooperativeStates& s, int r, const std::string& x, bool counted) const = 0;
  virtual std::string second_look(const CooperativeStates& s, int r, const std::string& x) const = 0;
  /// Beside the first look, of a whole vector.
  virtual void count_vector(CooperativeStates& /*s*/, int /*r*/) const {}
  virtual void begin_sweep(CooperativeStates& /*s*/, int /*r*/) const {}
  /// Of a lane.
  virtual void begin_again(CooperativeStates& /*s*/, int /*r*/) const {}
  virtual void begin_chunk(CooperativeStates& s, int r, bool counted) const = 0;
  virtual void join_chunk(CooperativeStates& s, int r, bool counted) const = 0;
  /// The lanes of a thread, which share the leader's result.
  virtual void join_lanes(CooperativeStates& s, int r) const = 0;
  /// So many neighbouring lanes of a warp.
  virtual void across(CooperativeStates& s, int r, int count) const = 0;
  /// What all blocks left, z<r>, into a<r> of all lanes of a warp.
  virtual void merge_blocks(CooperativeStates& s, int r, const Blocks& blocks) const = 0;
};

}  // namespace planish::codegen::printing
