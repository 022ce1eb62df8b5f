#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "llm/bandit.h"
#include "llm/provider.h"

namespace planish::llm {

/// Which models are asked for one question, in which order.
struct Choice {
  Role role = Role::coder;
  std::vector<std::size_t> order;  ///< of Ensemble::models(); never empty when it comes from choose()
};

/// What asking came to, for tell().
struct Outcome {
  Answer answer;
  /// Who failed before (or instead of) the one that answered, with why: fallback is never silent.
  std::vector<std::pair<std::size_t, Error>> failed;
  std::size_t answered = 0;  ///< index of the model, where there is an answer
};

/// The models of a configuration as one. choose() and tell() decide, deterministically for a seed and an order of
/// calls: the scheduler calls them from one thread. complete() asks and decides nothing; every seat calls it from a
/// thread of its own, and no more than `parallel` calls are with one model at a time.
class Ensemble {
 public:
  /// Each provider retries by itself. The clock outlives the ensemble.
  Ensemble(std::vector<std::shared_ptr<Provider>> models, Clock& clock, std::uint64_t seed);

  bool has(Role role) const;
  /// Kind `no_model_for_role`: no model takes this role.
  Result<Choice> choose(Role role);
  Outcome complete(const Choice& choice, const ChatRequest& request, const Call& call);
  /// `reward`: what the answer was worth, from 0 to 1. Who failed gets 0; whose key, name or account is refused is not
  /// chosen again.
  void tell(const Choice& choice, const Outcome& outcome, double reward);

  const std::vector<std::shared_ptr<Provider>>& models() const { return models_; }
  const CostBandit* bandit(Role role) const;
  /// Which models of the role are not asked any more.
  std::vector<std::string> benched(Role role) const;

 private:
  struct Team {
    std::vector<std::size_t> members;  // of models_
    CostBandit bandit;
  };
  class Turn;
  std::vector<std::shared_ptr<Provider>> models_;
  Clock& clock_;
  std::map<Role, Team> teams_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<int> busy_;
};

/// Sends the parts of a prompt that all seats share (`fixed` and `task`) once, with the tools, and waits for the
/// answer: from then on a server that caches prefixes has them, and 32 seats that begin together do not each pay for
/// them. The answer's text is of no use; its usage says what was written and read.
Answer warm_up(Provider& model, const ChatRequest& first, const Call& call);

}  // namespace planish::llm
