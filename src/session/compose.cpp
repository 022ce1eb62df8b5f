#include "session/compose.h"

#include <algorithm>
#include <span>
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

/// Puts a whole together of what passes, where it does not pass with everything.
class Builder {
 public:
  Builder(const Plan& plan, const std::vector<std::size_t>& fusions, const CheckWhole& check, std::string failed)
      : plan_(plan), fusions_(fusions), check_(check), failed_(std::move(failed)) {}

  /// Of choices with which the whole is known to fail: half of them, then the other half, each as a whole where that
  /// passes. `exact_too`: that it fails with their exact forms is known as well.
  Status add_parts_of(std::span<const Choice> choices, bool exact_too) {
    if (choices.size() == 1) {
      if (choices.front().exact && !exact_too) {
        PLANISH_TRY(const bool fits, add(choices, exactly));
        if (fits) return {};
      }
      best_.dropped.push_back(choices.front().region);
      return {};
    }
    const std::size_t half = choices.size() / 2;
    for (const auto part : {choices.first(half), choices.subspan(half)}) {
      PLANISH_TRY(const bool fits, add(part, as_found));
      if (!fits) PLANISH_CHECK(add_parts_of(part, false));
    }
    return {};
  }

  /// What was kept, with packings together again where that passes.
  Result<Composed> result() {
    if (!kept_.empty()) {
      std::string other;
      PLANISH_TRY(auto together, attempt(plan_, fusions_, kept_, check_, codegen::Packings::together, other));
      if (together) keep(std::move(*together));
    }
    return std::move(best_);
  }

 private:
  Result<bool> add(std::span<const Choice> choices, Form (*form)(const Choice&)) {
    Forms with = kept_;
    for (const Choice& choice : choices) with.insert_or_assign(choice.region, form(choice));
    PLANISH_TRY(auto composed, attempt(plan_, fusions_, with, check_, codegen::Packings::apart, failed_));
    if (!composed) return false;
    kept_ = std::move(with);
    keep(std::move(*composed));
    return true;
  }

  void keep(Composed composed) {
    composed.dropped = std::move(best_.dropped);
    best_ = std::move(composed);
  }

  const Plan& plan_;
  const std::vector<std::size_t>& fusions_;
  const CheckWhole& check_;
  std::string failed_;
  Forms kept_;
  Composed best_;
};

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
  Builder builder(plan, fusions, check, std::move(failed));
  PLANISH_CHECK(builder.add_parts_of(choices, choices.size() == 1));
  return builder.result();
}

}  // namespace planish::session
