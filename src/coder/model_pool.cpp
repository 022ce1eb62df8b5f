#include "coder/model_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace planish::coder {

ModelPool::Choices ModelPool::choose(bool plans) {
  Choices out;
  const auto pick = [this](llm::Role role) -> std::optional<llm::Choice> {
    if (!ensemble_.has(role)) role = llm::Role::coder;
    auto choice = ensemble_.choose(role);
    return choice ? std::optional(std::move(*choice)) : std::nullopt;
  };
  if (plans) out.planner = pick(llm::Role::planner);
  out.coder = pick(llm::Role::coder);
  if (options_.judge) out.judge = pick(llm::Role::judge);
  return out;
}

llm::Call ModelPool::call_for(std::string_view purpose, const CancelToken& cancel) {
  llm::Call call;
  call.cancel = &cancel;
  call.listener = [this, purpose = std::string(purpose)](const llm::CallEvent& event) {
    const std::scoped_lock lock(mutex_);
    if (event.kind == llm::CallEvent::Kind::charged) {
      llm::Amount& amount = report_.costs[purpose].amount;
      amount.tokens += event.amount.tokens;
      amount.nanodollars += event.amount.nanodollars;
    } else if (event.kind == llm::CallEvent::Kind::fallback) {
      ++report_.fallbacks[fmt::format("{}: {}", event.label, event.text)];
    }
  };
  return call;
}

void ModelPool::count(std::string_view purpose, const llm::Answer& answer) {
  const std::scoped_lock lock(mutex_);
  ModelCost& cost = report_.costs[std::string(purpose)];
  ++cost.calls;
  cost.failed += answer ? 0 : 1;
  if (!answer) return;
  const llm::Usage& usage = answer->usage;
  cost.usage.fresh += usage.fresh;
  cost.usage.cached += usage.cached;
  cost.usage.cache_writes += usage.cache_writes;
  cost.usage.output += usage.output;
  cost.usage.reasoning += usage.reasoning;
}

ModelPool::Asked ModelPool::ask(std::string_view purpose, const std::optional<llm::Choice>& choice,
                                const llm::ChatRequest& request, const CancelToken& cancel) {
  Asked out{choice.value_or(llm::Choice{}), {}, 0};
  out.outcome = ensemble_.complete(out.choice, request, call_for(purpose, cancel));
  count(purpose, out.outcome.answer);
  return out;
}

void ModelPool::settle(const Asked& asked) {
  ensemble_.tell(asked.choice, asked.outcome, asked.worth);
}

void ModelPool::warm(const std::string& region, const llm::ChatRequest& first, const CancelToken& cancel) {
  if (options_.seats < 2) return;
  std::once_flag* flag = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    auto& known = warmed_[region];
    if (!known) known = std::make_unique<std::once_flag>();
    flag = known.get();
  }
  std::call_once(*flag, [&] {
    for (const auto& model : ensemble_.models()) {
      const auto& roles = model->config().roles;
      if (std::ranges::find(roles, llm::Role::coder) == roles.end()) continue;
      // One that fails is heard of when it is asked in earnest.
      count("warm-up", llm::warm_up(*model, first, call_for("warm-up", cancel)));
    }
  });
}

std::vector<std::string> ModelPool::patterns(std::string_view query, std::size_t k) const {
  return options_.patterns == nullptr ? std::vector<std::string>{} : options_.patterns->find(query, k);
}

void ModelPool::note_answer(bool usable) {
  const std::scoped_lock lock(mutex_);
  ++report_.answers;
  report_.unusable += usable ? 0 : 1;
}

void ModelPool::note_fallback(std::string reason) {
  const std::scoped_lock lock(mutex_);
  ++report_.judged;
  report_.judge_fallbacks += reason.empty() ? 0 : 1;
  // Verdicts come in any order; which reason is told must not depend on it, as a recording repeats the whole.
  if (!reason.empty() && (report_.judge_trouble.empty() || reason < report_.judge_trouble))
    report_.judge_trouble = std::move(reason);
}

ModelPool::Report ModelPool::report() const {
  const std::scoped_lock lock(mutex_);
  return report_;
}

}  // namespace planish::coder
