#include "session/compose.h"

#include <algorithm>
#include <utility>

namespace planish::session {
namespace {

using Forms = std::map<std::string, Form>;

Form as_found(const Choice& choice) {
  return {choice.proposal, false};
}
Form exactly(const Choice& choice) {
  return choice.exact ? Form{*choice.exact, true} : as_found(choice);
}

/// The whole at level full in these forms; nothing where it cannot be built or does not pass. `failed`: a program that
/// is known not to.
Result<std::optional<Composed>> attempt(const Plan& plan, const std::vector<std::size_t>& fusions, const Forms& forms,
                                        const CheckWhole& check, codegen::Packings packings, std::string& failed) {
  std::map<std::string, coder::Proposal> chosen;
  for (const auto& [region, form] : forms) chosen.emplace(region, form.proposal);
  auto program = plan.compose(chosen, fusions, packings);
  if (!program || *program == failed) return std::nullopt;
  PLANISH_TRY(auto evaluation, check(*program, true));
  if (!evaluation.ok()) {
    failed = std::move(*program);
    return std::nullopt;
  }
  return Composed{std::move(*program), std::move(evaluation), forms, {}};
}

}  // namespace

std::optional<coder::Proposal> without_approximations(const coder::Domain& domain, const coder::Proposal& proposal) {
  const auto* genome = coder::genome_of(proposal);
  if (genome == nullptr || codegen::gene(*genome, "fast", 0) == 0) return std::nullopt;
  codegen::Genome exact = *genome;
  exact["fast"] = 0;
  if (!domain.legal(exact)) return std::nullopt;
  return exact;
}

namespace {

/// The choices with another form of each that has one; nothing where none has.
std::optional<std::vector<Choice>> in_form(std::vector<Choice> choices,
                                           std::optional<coder::Proposal> Choice::* other) {
  bool any = false;
  for (Choice& choice : choices) {
    if (!(choice.*other)) continue;
    choice.proposal = *std::exchange(choice.*other, std::nullopt);
    choice.exact.reset();
    any = true;
  }
  return any ? std::optional(std::move(choices)) : std::nullopt;
}

}  // namespace

std::optional<std::vector<Choice>> exact_choices(std::vector<Choice> choices) {
  return in_form(std::move(choices), &Choice::exact);
}

std::optional<std::vector<Choice>> unrounded_choices(std::vector<Choice> choices) {
  return in_form(std::move(choices), &Choice::unrounded);
}

Result<Composed> compose_choices(const Plan& plan, const std::vector<std::size_t>& fusions, std::vector<Choice> choices,
                                 const CheckWhole& check) {
  std::ranges::stable_sort(choices, std::greater{}, &Choice::gain_ms);
  std::string failed;
  const bool approximates = std::ranges::any_of(choices, [](const Choice& c) { return c.exact.has_value(); });
  for (const auto form : {as_found, exactly}) {
    if (form == exactly && !approximates) break;
    Forms forms;
    for (const Choice& choice : choices) forms.emplace(choice.region, form(choice));
    // Each region's launches passed by themselves; one launch for the packings of many did not, before now.
    for (const auto packings : {codegen::Packings::together, codegen::Packings::apart}) {
      PLANISH_TRY(auto all, attempt(plan, fusions, forms, check, packings, failed));
      if (all) return std::move(*all);
    }
  }
  Composed best;
  Forms kept;
  std::vector<std::string> dropped;
  for (const Choice& choice : choices) {
    bool fits = false;
    // With a single choice the attempts above were these.
    for (const auto form : {as_found, exactly}) {
      if (choices.size() == 1 || fits || (form == exactly && !choice.exact)) continue;
      kept.insert_or_assign(choice.region, form(choice));
      PLANISH_TRY(auto with, attempt(plan, fusions, kept, check, codegen::Packings::apart, failed));
      fits = with.has_value();
      if (fits) {
        best = std::move(*with);
      } else {
        kept.erase(choice.region);
      }
    }
    if (!fits) dropped.push_back(choice.region);
  }
  if (!kept.empty()) {
    std::string other;
    PLANISH_TRY(auto together, attempt(plan, fusions, kept, check, codegen::Packings::together, other));
    if (together) best = std::move(*together);
  }
  best.dropped = std::move(dropped);
  return best;
}

}  // namespace planish::session
