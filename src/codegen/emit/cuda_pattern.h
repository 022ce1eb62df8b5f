#pragma once

#include <vector>

#include "codegen/kernel.h"

/// Pairs of reductions that one sweep can compute although the second needs the first. Pure; thread-safe.
namespace planish::codegen::printing {

/// The follower is of the phase right after the leader's.
struct OnlinePair {
  enum class Kind {
    exponentials,  ///< leader: max of x; follower: sum of exp(x - base), base made of that maximum
    deviations,    ///< leader: sum of x; follower: sum of (x - mean)², mean = sum / length
  };
  Kind kind = Kind::exponentials;
  int leader = 0, follower = 0;  ///< positions in Kernel::reductions
  int x = 0;                     ///< node that both look at
  int base = 0;                  ///< node subtracted from x in the follower's argument
};

/// All pairs, or none of a phase where some reduction cannot follow. f32 accumulation only.
std::vector<OnlinePair> online_pairs(const Kernel& kernel);

/// True where approximations of the machine change what is printed for an element (see gene `fast`).
bool fast_matters(const Kernel& kernel);

}  // namespace planish::codegen::printing
