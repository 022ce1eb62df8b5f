#pragma once

#include <optional>
#include <vector>

#include "codegen/kernel.h"

/// Pairs of reductions that one sweep can compute although the second needs the first. Pure; thread-safe.
namespace planish::codegen::printing {

/// The follower is of the phase right after the leader's.
struct OnlinePair {
  JointKind kind = JointKind::exponentials;
  int leader = 0, follower = 0;  ///< positions in Kernel::reductions
  int x = 0;                     ///< node that both look at
  int base = 0;                  ///< node subtracted from x in the follower's argument
};

/// All pairs, or none of a phase where some reduction cannot follow. f32 accumulation only.
std::vector<OnlinePair> online_pairs(const Kernel& kernel);

/// A boolean node, and the value it must have.
struct Condition {
  int node = 0;
  bool holds = true;
  friend bool operator==(const Condition&, const Condition&) = default;
};

/// By node: conditions outside of which nothing looks at the node's value (a masked-out score). They are made of
/// positions and, in kernels with rows, of integers and booleans in memory (a mask, the length of a sequence), whose
/// own loads are needed always. Empty: always needed.
std::vector<std::vector<Condition>> needed_when(const Kernel& kernel);

/// A choice between what is masked and a value that is one for the whole row.
struct VectorPredicate {
  int load = 0;    ///< needed where the choice falls on what is masked
  int select = 0;  ///< the choice
  int hidden = 0;  ///< what it is elsewhere
};

/// The first such choice whose condition alone says when a load of the elements is needed.
std::optional<VectorPredicate> vector_predicate(const Kernel& kernel, const std::vector<std::vector<Condition>>& needs);

/// The loads that conditions look at, ascending.
std::vector<int> asked_by(const Kernel& kernel, const std::vector<std::vector<Condition>>& needs);

/// Outer variables, other than the last, that some load of the rows' elements does not depend on although it depends
/// on another outer one: rows that differ in such a variable alone share that operand.
std::vector<int> shared_along(const Kernel& kernel);

/// True where approximations of the machine change what is printed for an element (see gene `fast`).
bool fast_matters(const Kernel& kernel);
bool has_fast_form(const Node& node);

}  // namespace planish::codegen::printing
