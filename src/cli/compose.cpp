#include "cli/compose.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace planish::cli {
namespace {

struct Form {
  std::string region;
  codegen::Genome genome;
  bool is_exact = false;
};

Form as_found(const Choice& choice) {
  return {choice.region, choice.genome, false};
}
Form exactly(const Choice& choice) {
  return choice.exact ? Form{choice.region, *choice.exact, true} : as_found(choice);
}

/// The whole at level full with these choices; nothing where it cannot be built or does not pass.
Result<std::optional<Composed>> attempt(const Plan& plan, const std::vector<Form>& choices, const CheckWhole& check) {
  std::map<std::string, codegen::Genome> chosen;
  Composed out;
  for (const Form& choice : choices) {
    chosen.emplace(choice.region, choice.genome);
    out.used.push_back(choice.region);
    if (choice.is_exact) out.exactly.push_back(choice.region);
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

std::optional<codegen::Genome> without_approximations(const coder::Domain& domain, const codegen::Genome& genome) {
  const auto fast = genome.find("fast");
  if (fast == genome.end() || fast->second == 0) return std::nullopt;
  codegen::Genome exact = genome;
  exact["fast"] = 0;
  return domain.legal(exact) ? std::optional(std::move(exact)) : std::nullopt;
}

Result<Composed> compose_choices(const Plan& plan, std::vector<Choice> choices, const CheckWhole& check) {
  std::ranges::stable_sort(choices, std::greater{}, &Choice::gain_ms);
  const bool approximates = std::ranges::any_of(choices, [](const Choice& c) { return c.exact.has_value(); });
  for (const auto form : {as_found, exactly}) {
    if (form == exactly && !approximates) break;
    std::vector<Form> forms;
    std::ranges::transform(choices, std::back_inserter(forms), form);
    PLANISH_TRY(auto all, attempt(plan, forms, check));
    if (all) return std::move(*all);
  }
  Composed best;
  std::vector<Form> kept;
  std::vector<std::string> dropped;
  for (const Choice& choice : choices) {
    bool fits = false;
    // With a single choice the attempts above were these.
    for (const auto form : {as_found, exactly}) {
      if (choices.size() == 1 || fits || (form == exactly && !choice.exact)) continue;
      kept.push_back(form(choice));
      PLANISH_TRY(auto with, attempt(plan, kept, check));
      fits = with.has_value();
      if (fits) {
        best = std::move(*with);
      } else {
        kept.pop_back();
      }
    }
    if (!fits) dropped.push_back(choice.region);
  }
  best.dropped = std::move(dropped);
  return best;
}

}  // namespace planish::cli
