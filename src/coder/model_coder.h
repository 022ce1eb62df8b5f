#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "coder/coder.h"
#include "coder/model_prompt.h"
#include "llm/ensemble.h"

namespace planish::coder {

/// The models of a run, as its seats share them. Thread-safe; outlives the seats' coders.
class ModelPool {
 public:
  /// `ensemble` outlives it.
  ModelPool(llm::Ensemble& ensemble, PromptFacts facts) : ensemble_(ensemble), facts_(std::move(facts)) {}

  struct Asked {
    llm::Choice choice;
    llm::Outcome outcome;
  };
  /// One question to whoever the ensemble's bandit chooses. Kinds: those of llm::Failure, `no_model_for_role`.
  Result<Asked> ask(const llm::ChatRequest& request, const CancelToken& cancel);
  /// What an answer was worth, 0 to 1.
  void reward(const Asked& asked, double worth);
  const PromptFacts& facts() const { return facts_; }

 private:
  llm::Ensemble& ensemble_;
  PromptFacts facts_;
  std::mutex mutex_;  ///< the ensemble decides in one thread
};

/// Language models in a seat: each question shows the region, the best program and what became of the last answer; an
/// answer that holds no program gets one turn to mend it. `number` tells seats apart.
Seat model_seat(std::shared_ptr<ModelPool> pool, int number);

}  // namespace planish::coder
