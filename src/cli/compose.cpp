#include "cli/compose.h"

#include <algorithm>
#include <map>
#include <utility>

namespace planish::cli {
namespace {

/// The whole at level full with these choices; nothing where it cannot be built or does not pass.
Result<std::optional<Composed>> attempt(const Plan& plan, const std::vector<Choice>& choices, const CheckWhole& check) {
  std::map<std::string, codegen::Genome> chosen;
  Composed out;
  for (const Choice& choice : choices) {
    chosen.emplace(choice.region, choice.genome);
    out.used.push_back(choice.region);
  }
  auto program = plan.compose(chosen);
  if (!program) return std::nullopt;
  PLANISH_TRY(auto evaluation, check(*program, true));
  if (!evaluation.ok()) return std::nullopt;
  out.program = std::move(*program);
  out.evaluation = std::move(evaluation);
  return out;
}

}  // namespace

Result<Composed> compose_choices(const Plan& plan, std::vector<Choice> choices, const CheckWhole& check) {
  std::ranges::stable_sort(choices, std::greater{}, &Choice::gain_ms);
  PLANISH_TRY(auto all, attempt(plan, choices, check));
  if (all) return std::move(*all);
  Composed best;
  std::vector<Choice> kept;
  std::vector<std::string> dropped;
  for (Choice& choice : choices) {
    // With a single choice the attempt above was this one.
    if (choices.size() == 1) {
      dropped.push_back(choice.region);
      break;
    }
    kept.push_back(choice);
    PLANISH_TRY(auto with, attempt(plan, kept, check));
    if (with) {
      best = std::move(*with);
    } else {
      kept.pop_back();
      dropped.push_back(choice.region);
    }
  }
  best.dropped = std::move(dropped);
  return best;
}

}  // namespace planish::cli
