#include "session/whole.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "session/said_once.h"
#include "session/winners.h"

namespace planish::session {
namespace {

/// Whether both are right and timed, and the first takes as long as the second, or longer.
bool is_no_faster(const Evaluation& now, const Evaluation& before) {
  return now.ok() && before.ok() && now.bench && before.bench && now.bench->median_ms >= before.bench->median_ms;
}

}  // namespace

/// Ways that gained clearly are taken together first, the others one more at a time: a network has dozens. They are
/// compared on one fresh seed, and what comes of it goes through the whole contract.
Status WholeComposer::compose() {
  const auto standings = search_.standings(true);
  std::vector<std::size_t> clear, others, whole_ways;
  for (const std::size_t fusion : search_.close_fusions(true)) {
    const search::FusionPlan& way = search_.fusions().all()[fusion];
    if (way.whole) {
      whole_ways.push_back(fusion);
      continue;
    }
    const double before = search::FusionPlans::replaced_ms(way, standings);
    const bool gains = search_.fusions().gain(way, standings).value_or(0) > search::close_way * before;
    (gains ? clear : others).push_back(fusion);
  }
  // The contract of a network takes as long as everything else here: most often once is enough.
  if (whole_ways.empty() && !is_one_region()) {
    PLANISH_TRY(const bool proved, compose_before_proof(clear, others));
    if (proved) return {};
  }
  PLANISH_CHECK(compose_with({}, true));
  for (const std::size_t fusion : whole_ways) {
    if (run_.cancelled()) break;
    PLANISH_CHECK(compose_with({fusion}, true));
  }
  // What is not proved by the end of the time does not displace what is.
  const Whole first = whole_;
  auto refined = refine(first, clear, others);
  if (!refined && first.evaluation.ok()) whole_ = first;
  return refined;
}

/// Everything on one fresh seed, then the whole contract: of all of that, else of the ways alone, else of neither.
/// False, and nothing has changed, where none passes or is faster.
Result<bool> WholeComposer::compose_before_proof(const std::vector<std::size_t>& clear,
                                                 const std::vector<std::size_t>& others) {
  const Whole before = whole_;
  const auto all = [&]() -> Result<bool> {
    PLANISH_TRY(const bool taken, compose_with({}, false));
    if (!taken) return false;
    PLANISH_TRY(std::vector<Whole> stages, stages_on_one_seed(clear, others));
    while (!stages.empty()) {
      whole_ = std::move(stages.back());
      stages.pop_back();
      PLANISH_TRY(auto proved, run_.evaluate(whole_.program, true));
      if (proved.ok()) {
        if (is_no_faster(proved, before.evaluation)) return false;
        whole_.evaluation = std::move(proved);
        return true;
      }
      if (stages.empty()) break;
      run_.note(fmt::format("a program that seemed faster fails ({})", name(proved.outcome)));
      // The proof of what ships comes on top: the last stage has the best chance where there is no time for all.
      const double proof = proved.test ? proved.test->seconds : 0;
      if (stages.size() > 1 && run_.left() < 3 * proof) stages.resize(1);
    }
    return false;
  };
  auto done = all();
  if (!done || !*done) whole_ = before;
  return done;
}

/// Other ways to cut the task, then kernels for what PyTorch still runs, on one fresh seed: the whole before, after the
/// ways and after the kernels, as far as each took something. The last of them is the whole.
Result<std::vector<Whole>> WholeComposer::stages_on_one_seed(std::vector<std::size_t> clear,
                                                             const std::vector<std::size_t>& others) {
  std::vector<Whole> stages{whole_};
  std::vector<std::size_t> fusions;
  bool taken = false;
  if (clear.size() > 1 && !run_.cancelled()) {
    PLANISH_TRY(taken, compose_with(clear, false));
    if (taken) fusions = std::exchange(clear, {});
  }
  clear.insert(clear.end(), others.begin(), others.end());
  for (const std::size_t fusion : clear) {
    if (run_.cancelled()) break;
    fusions.push_back(fusion);
    PLANISH_TRY(taken, compose_with(fusions, false));
    if (!taken) fusions.pop_back();
  }
  if (!fusions.empty()) stages.push_back(whole_);
  PLANISH_TRY(const bool completed, complete());
  if (completed) stages.push_back(whole_);
  return stages;
}

/// The whole contract of what stages_on_one_seed() comes to, from the last; `first` where none is better.
Status WholeComposer::refine(const Whole& first, const std::vector<std::size_t>& clear,
                             const std::vector<std::size_t>& others) {
  PLANISH_TRY(std::vector<Whole> stages, stages_on_one_seed(clear, others));
  for (; stages.size() > 1; stages.pop_back()) {
    whole_ = std::move(stages.back());
    PLANISH_TRY(const bool better, proves_better_than(first));
    if (better) return {};
  }
  whole_ = first;
  return {};
}

/// Whether the whole, as it is now, passes all of the contract, and is faster than it was where that passed.
Result<bool> WholeComposer::proves_better_than(const Whole& first) {
  // What ships is proved once more: where there is no time for both, what is proved already would be lost.
  const double proof = first.evaluation.ok() && first.evaluation.test ? first.evaluation.test->seconds : 0;
  if (constexpr double proofs = 2; proof > 0 && run_.left() < proofs * proof) {
    run_.note(
        fmt::format("a program that seemed faster is left out: proving the whole takes {:.0f} s, and what is left "
                    "is for what ships (a larger --max-time tries it)",
                    proof));
    return false;
  }
  PLANISH_TRY(auto proved, run_.evaluate(whole_.program, true));
  if (!proved.ok()) {
    run_.note(fmt::format("a program that seemed faster fails ({})", name(proved.outcome)));
    return false;
  }
  if (is_no_faster(proved, first.evaluation)) return false;
  whole_.evaluation = std::move(proved);
  return true;
}

/// Tries kernels of ours in place of what PyTorch still runs, all at once, though none is faster by itself, or was
/// tried: it is the whole that is right and faster, or not. True where that is the whole from now on, after one fresh
/// seed.
Result<bool> WholeComposer::complete() {
  if (is_one_region() || whole_.used.contains(whole_task)) return false;  // that was measured
  run_.begins();
  std::vector<std::string> tried;
  bool guesses = worth_guessing();
  for (const Untried untried : {Untried::guessed, Untried::exact, Untried::none}) {
    if (run_.cancelled()) break;
    if (!guesses && untried != Untried::none) continue;
    std::vector<Choice> choices = with_the_rest(search_, whole_.fusions, whole_.choices, untried);
    if (choices.size() == whole_.choices.size()) continue;
    Composed composed;
    composed.used = whole_.used;  // what the whole fails with is among the choices, and stays PyTorch's
    for (std::size_t i = whole_.choices.size(); i < choices.size(); ++i)
      composed.used.emplace(choices[i].region, Form{choices[i].proposal, false});
    std::map<std::string, coder::Proposal> chosen;
    for (const auto& [region, form] : composed.used) chosen.emplace(region, form.proposal);
    auto program = plan_.compose(chosen, planned_ways(), codegen::Packings::together);
    if (!program || std::ranges::find(tried, *program) != tried.end()) continue;
    tried.push_back(*program);
    PLANISH_TRY(auto evaluation, run_.evaluate(*program, false));
    if (evaluation.ok()) guesses = false;  // exact ones take longer still
    if (!evaluation.ok() || is_no_faster(evaluation, whole_.evaluation)) continue;
    composed.program = std::move(*program);
    composed.evaluation = std::move(evaluation);
    take(std::move(composed), std::move(choices), whole_.fusions);
    return true;
  }
  return false;
}

/// Whether kernels for regions that nothing was tried for can be compiled in a time that a person would give them: of a
/// network these are hundreds.
bool WholeComposer::worth_guessing() {
  const auto count = [&](Untried untried) {
    return with_the_rest(search_, whole_.fusions, whole_.choices, untried).size();
  };
  const std::size_t guessed = count(Untried::guessed), known = count(Untried::none);
  const double seconds = static_cast<double>(guessed - known) * run_.seconds_a_kernel;
  if (seconds <= run_.patience) return true;
  run_.note(
      fmt::format("{} regions that nothing was tried for stay PyTorch's: compiling kernels for them would take some "
                  "{:.0f} s (a larger --budget tries more)",
                  guessed - known, seconds));
  return false;
}

/// True where this is the whole from now on. `full`: it has gone through the whole contract, not just through one fresh
/// seed.
Result<bool> WholeComposer::compose_with(const std::vector<std::size_t>& fusions, bool full) {
  std::vector<Choice> choices = winners(search_, fusions);
  if (choices.empty()) return false;
  run_.begins();
  PLANISH_TRY(auto composed, composed_of(choices, fusions, full));
  SaidOnce said;
  for (const std::string& dropped : composed.dropped) said.add("the whole fails otherwise", dropped);
  for (const std::string& line : said.lines("region", "keeps its PyTorch form", "keep their PyTorch form"))
    run_.note(line);
  if (!composed.evaluation || !composed.evaluation->ok()) return false;
  if (is_no_faster(*composed.evaluation, whole_.evaluation)) return false;
  take(std::move(composed), std::move(choices), fusions);
  return true;
}

Result<bool> WholeComposer::without_approximations() {
  return in_another_form(exact_choices(whole_.choices));
}

Result<bool> WholeComposer::without_rounding() {
  return in_another_form(unrounded_choices(whole_.choices));
}

Result<bool> WholeComposer::in_another_form(std::optional<std::vector<Choice>> choices) {
  if (!choices) return false;
  PLANISH_TRY(auto composed, composed_of(*choices, whole_.fusions, true));
  if (!composed.evaluation || !composed.evaluation->ok()) return false;
  take(std::move(composed), std::move(*choices), whole_.fusions);
  return true;
}

Result<Composed> WholeComposer::composed_of(const std::vector<Choice>& choices, const std::vector<std::size_t>& fusions,
                                            bool full) {
  // Of a task that is one region the whole contract has just been measured, with these kernels: one more fresh seed
  // tells whether they are put together rightly. What ships goes through everything again in any case.
  const bool contract = full && !(is_one_region() && fusions.empty());
  const auto check = [this, contract](const std::string& program, bool asked) {
    return run_.evaluate(program, asked && contract);
  };
  return compose_choices(plan_, planned(fusions), choices, check);
}

bool WholeComposer::is_one_region() const {
  return std::ranges::any_of(plan_.regions(), &PlannedRegion::whole);
}

/// Ways of the search by their places in the plan.
std::vector<std::size_t> WholeComposer::planned(const std::vector<std::size_t>& fusions) const {
  std::vector<std::size_t> planned;
  for (const std::size_t fusion : fusions) {
    if (!search_.fusions().all()[fusion].whole) planned.push_back(setup_.planned_fusion(fusion));
  }
  return planned;
}

/// From here on this is the program of the whole.
void WholeComposer::take(Composed composed, std::vector<Choice> choices, const std::vector<std::size_t>& fusions) {
  whole_.program = std::move(composed.program);
  whole_.evaluation = std::move(*composed.evaluation);
  whole_.used = std::move(composed.used);
  whole_.choices = std::move(choices);
  whole_.fusions = fusions;
  SaidOnce said;
  for (const auto& [region, form] : whole_.used) {
    if (form.is_exact) said.add("the whole fails with them", region);
  }
  for (const std::string& line :
       said.lines("region", "is used without approximations", "are used without approximations"))
    run_.note(line);
}

}  // namespace planish::session
