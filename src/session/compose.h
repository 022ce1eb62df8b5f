#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/evaluation.h"
#include "session/plan.h"

namespace planish::session {

/// A region's winner, and what it saves a call of the task.
struct Choice {
  std::string region;
  coder::Proposal proposal;
  double gain_ms = 0;
  /// The same without the machine's approximations, where the winner has some and it is legal: what is exact enough
  /// for a region by itself may not be for what is computed from it (a mean of rounding errors).
  std::optional<coder::Proposal> exact;
  /// The best that was found whose factors are not rounded, in its exact form, where the winner's are: eager rounds
  /// them too, and errs otherwise.
  std::optional<coder::Proposal> unrounded = {};
};

/// The genome with every approximation turned off; nothing where it has none, or is not legal so, or where what is
/// proposed is no genome.
std::optional<coder::Proposal> without_approximations(const coder::Domain& domain, const coder::Proposal& proposal);

/// The choices in their exact forms, as choices of their own; nothing where no choice has one.
std::optional<std::vector<Choice>> exact_choices(std::vector<Choice> choices);

/// Likewise those with factors that are not rounded.
std::optional<std::vector<Choice>> unrounded_choices(std::vector<Choice> choices);

/// How a region is used in a composition.
struct Form {
  coder::Proposal proposal;
  bool is_exact = false;  ///< the exact form of a winner that approximates
};

struct Composed {
  std::string program;                   ///< the whole task; empty where no choice could be kept
  std::optional<Evaluation> evaluation;  ///< at level full
  std::map<std::string, Form> used;      ///< by region
  std::vector<std::string> dropped;
};

/// Evaluates a program of the whole task, at level full or screen.
using CheckWhole = std::function<Result<Evaluation>(const std::string& program, bool full)>;

/// All choices together, in the task cut with these ways (of the plan), proved at level full. Where that fails, all in
/// their exact form; where that fails too, they are added half by half, largest gains first, halves that fail in halves
/// again, down to single ones in either form, and those with which the whole fails are dropped. Errors are those of
/// `check`; a composition that cannot be built counts as one that fails.
Result<Composed> compose_choices(const Plan& plan, const std::vector<std::size_t>& fusions, std::vector<Choice> choices,
                                 const CheckWhole& check);

}  // namespace planish::session
