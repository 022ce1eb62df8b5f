#include "llm/ensemble.h"

#include <fmt/format.h>

#include <algorithm>

namespace planish::llm {
namespace {

/// Asking again in this run is of no use.
bool is_lasting(ErrorKind kind) {
  return kind == "model_unauthorized" || kind == "model_unknown" || kind == "model_quota";
}

}  // namespace

/// One of a model's `parallel` places, for as long as it lives.
class Ensemble::Turn {
 public:
  Turn(Ensemble& ensemble, std::size_t model) : ensemble_(ensemble), model_(model) {}
  ~Turn() {
    if (!held_) return;
    {
      std::scoped_lock lock(ensemble_.mutex_);
      --ensemble_.busy_[model_];
    }
    ensemble_.freed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  Status take(const Call& call) {
    std::unique_lock lock(ensemble_.mutex_);
    while (ensemble_.busy_[model_] >= ensemble_.models_[model_]->config().parallel) {
      if (call.cancel != nullptr && call.cancel->cancelled())
        return fail("cancelled", "cancelled while a model was busy");
      if (ensemble_.clock_.now() >= call.deadline)
        return fail("model_timeout",
                    fmt::format("{} was busy until the time was over", ensemble_.models_[model_]->config().label));
      ensemble_.freed_.wait_for(lock, std::chrono::milliseconds(50));
    }
    ++ensemble_.busy_[model_];
    held_ = true;
    return {};
  }

 private:
  Ensemble& ensemble_;
  std::size_t model_;
  bool held_ = false;
};

Ensemble::Ensemble(std::vector<std::shared_ptr<Provider>> models, Clock& clock, std::uint64_t seed)
    : models_(std::move(models)), clock_(clock), busy_(models_.size(), 0) {
  for (const Role role : {Role::planner, Role::coder, Role::judge}) {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      if (std::ranges::find(models_[i]->config().roles, role) != models_[i]->config().roles.end()) members.push_back(i);
    }
    if (members.empty()) continue;
    const std::size_t arms = members.size();
    teams_.emplace(role, Team{std::move(members), CostBandit(arms, seed * 3 + static_cast<std::uint64_t>(role))});
  }
}

bool Ensemble::has(Role role) const {
  return teams_.contains(role);
}

const CostBandit* Ensemble::bandit(Role role) const {
  const auto team = teams_.find(role);
  return team == teams_.end() ? nullptr : &team->second.bandit;
}

std::vector<std::string> Ensemble::benched(Role role) const {
  std::vector<std::string> out;
  const auto team = teams_.find(role);
  if (team == teams_.end()) return out;
  for (std::size_t i = 0; i < team->second.members.size(); ++i) {
    if (team->second.bandit.benched(i)) out.push_back(models_[team->second.members[i]]->config().label);
  }
  return out;
}

Result<Choice> Ensemble::choose(Role role) {
  const auto team = teams_.find(role);
  if (team == teams_.end())
    return fail("no_model_for_role", fmt::format("no model is configured as {}", name(role)),
                fmt::format("add a [[model]] with role = \"{}\" to planish.toml (docs/models.md)", name(role)));
  Choice out{role, {}};
  for (const std::size_t arm : team->second.bandit.rank()) out.order.push_back(team->second.members[arm]);
  return out;
}

Outcome Ensemble::complete(const Choice& choice, const ChatRequest& request, const Call& call) {
  Outcome out{
      std::unexpected(Failure{{"no_model_for_role", "no model was chosen", {}, {}}, false, false, false, {}}), {}, 0};
  for (std::size_t i = 0; i < choice.order.size(); ++i) {
    const std::size_t model = choice.order[i];
    Turn turn(*this, model);
    if (auto taken = turn.take(call); !taken) {
      out.answer = std::unexpected(Failure{std::move(taken).error(), false, false, false, {}});
      return out;
    }
    out.answer = models_[model]->complete(request, call);
    if (out.answer) {
      out.answered = model;
      return out;
    }
    const Failure& failure = out.answer.error();
    out.failed.emplace_back(model, failure.error);
    const bool time = clock_.now() < call.deadline && (call.cancel == nullptr || !call.cancel->cancelled());
    if (!failure.elsewhere || !time || i + 1 == choice.order.size()) return out;
    call.tell({CallEvent::Kind::fallback,
               models_[model]->config().label,
               fmt::format("{}; asking {}", failure.error.message, models_[choice.order[i + 1]]->config().label),
               0,
               {}});
  }
  return out;
}

void Ensemble::tell(const Choice& choice, const Outcome& outcome, double reward) {
  const auto team = teams_.find(choice.role);
  if (team == teams_.end()) return;
  const auto arm_of = [&](std::size_t model) {
    return static_cast<std::size_t>(std::ranges::find(team->second.members, model) - team->second.members.begin());
  };
  for (const auto& [model, error] : outcome.failed) {
    const std::size_t arm = arm_of(model);
    if (arm >= team->second.members.size()) continue;
    if (error.kind != "cancelled" && error.kind != "spending_cap") team->second.bandit.tell(arm, 0, 0);
    if (is_lasting(error.kind)) team->second.bandit.bench(arm);
  }
  if (!outcome.answer) return;
  const std::size_t arm = arm_of(outcome.answered);
  if (arm < team->second.members.size())
    team->second.bandit.tell(arm, reward, static_cast<double>(outcome.answer->nanodollars));
}

Answer warm_up(Provider& model, const ChatRequest& first, const Call& call) {
  ChatRequest request;
  request.lane = "warm-up";
  request.role = first.role;
  request.tools = first.tools;  // they stand before the prompt in what is cached
  std::ranges::copy_if(first.system, std::back_inserter(request.system),
                       [](const PromptPart& part) { return part.scope <= Scope::task; });
  request.messages = {{Speaker::user, "Answer with the word ready.", {}, {}}};
  request.max_output_tokens = 16;
  return model.complete(request, call);
}

}  // namespace planish::llm
