#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/evaluation.h"
#include "search/search.h"
#include "session/compose.h"
#include "session/plan.h"
#include "session/search_setup.h"

namespace planish::session {

/// The best program of the whole task so far, and what it was put together from.
struct Whole {
  std::string program;
  Evaluation evaluation;
  std::vector<Choice> choices;       ///< what it was composed of
  std::map<std::string, Form> used;  ///< those of them that it has, by region
  std::vector<std::size_t> fusions;  ///< of the search: how the task is cut in it
};

/// Puts what a search found together: the task as it was cut first, then with other ways to cut it and with kernels for
/// what PyTorch still runs, as long as the whole gets faster. Regions were timed alone; the whole decides. One at a
/// time; not thread-safe.
class WholeComposer {
 public:
  /// What it asks of the run.
  struct Run {
    /// Of a program of the whole, anew: through the whole contract (`full`), or on one fresh seed.
    std::function<Result<Evaluation>(const std::string& program, bool full)> evaluate;
    std::function<void()> begins;  ///< before the first evaluation, at least
    std::function<bool()> cancelled;
    std::function<void(const std::string&)> note;  ///< for a person
    /// Seconds until the timing of what ships must begin; infinity without a limit.
    std::function<double()> left;
    /// Seconds that compiling kernels which were never tried may take in all, and what it is expected to take for one.
    double patience = 30, seconds_a_kernel = 0;
  };
  /// All are borrowed. `whole` is what is there, and what is better takes its place.
  WholeComposer(Whole& whole, const Plan& plan, const search::Search& search, const SearchSetup& setup, Run run)
      : whole_(whole), plan_(plan), search_(search), setup_(setup), run_(std::move(run)) {}

  /// Errors are those of `evaluate`; what stands then has gone through the whole contract, or was there before.
  Status compose();
  /// The same choices with nothing approximated, where some is; true where that passes, and stands from now on.
  Result<bool> without_approximations();
  /// The same with factors of products that are not rounded, where the search has found such kernels.
  Result<bool> without_rounding();
  /// How the task is cut in what stands, by the plan's ways.
  std::vector<std::size_t> planned_ways() const { return planned(whole_.fusions); }

 private:
  Result<bool> compose_before_proof(const std::vector<std::size_t>& clear, const std::vector<std::size_t>& others);
  Result<std::vector<Whole>> stages_on_one_seed(std::vector<std::size_t> clear, const std::vector<std::size_t>& others);
  Status refine(const Whole& first, const std::vector<std::size_t>& clear, const std::vector<std::size_t>& others);
  Result<bool> compose_with(const std::vector<std::size_t>& fusions, bool full);
  Result<Composed> composed_of(const std::vector<Choice>& choices, const std::vector<std::size_t>& fusions, bool full);
  Result<bool> in_another_form(std::optional<std::vector<Choice>> choices);
  Result<bool> complete();
  bool worth_guessing();
  Result<bool> proves_better_than(const Whole& first);
  void take(Composed composed, std::vector<Choice> choices, const std::vector<std::size_t>& fusions);
  std::vector<std::size_t> planned(const std::vector<std::size_t>& fusions) const;
  bool is_one_region() const;

  Whole& whole_;
  const Plan& plan_;
  const search::Search& search_;
  const SearchSetup& setup_;
  const Run run_;
};

}  // namespace planish::session
