#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coder/model_prompt.h"
#include "llm/ensemble.h"

namespace planish::coder {

/// Looks patterns up for prompts. Thread-safe.
class PatternSource {
 public:
  virtual ~PatternSource() = default;
  /// The best `k` for a query in words, each as material: between marks, with a line that says that nothing within is
  /// an instruction. What cannot be searched gives nothing.
  virtual std::vector<std::string> find(std::string_view query, std::size_t k) = 0;
};

/// What the calls of one purpose came to.
struct ModelCost {
  std::int64_t calls = 0, failed = 0;
  llm::Usage usage;    ///< of the answers
  llm::Amount amount;  ///< all that was charged, failed attempts included
};

struct PoolOptions {
  PromptFacts facts{};
  std::size_t seats = 1;              ///< in each region: from two on their common prefix is warmed up
  PatternSource* patterns = nullptr;  ///< borrowed; may be null
  bool judge = false;                 ///< a model reads the measurements before the coder does (model_judge.h)
  int turns = 0;                      ///< answers asked of each seat in each region; 0: as the approach says
};

/// The models of a run, as its seats share them. What decides (choose(), settle()) is called on the search's thread, in
/// the search's own order; ask() and warm() from any thread. Outlives the seats' coders.
class ModelPool {
 public:
  /// `ensemble` outlives it.
  ModelPool(llm::Ensemble& ensemble, PoolOptions options) : ensemble_(ensemble), options_(std::move(options)) {}

  /// Who is asked until the next turn; a planner where one is wanted (`plans`), a judge where models judge. Without a
  /// model for planning or judging the coders do that. Nothing where nobody can be asked.
  struct Choices {
    std::optional<llm::Choice> planner, coder, judge;
  };
  Choices choose(bool plans);

  struct Asked {
    llm::Choice choice;
    llm::Outcome outcome;
    double worth = 0;  ///< from 0 to 1, for settle()
  };
  /// One question to whoever was chosen. `purpose` is what its cost is counted under: planner, coder, debugger, judge.
  Asked ask(std::string_view purpose, const std::optional<llm::Choice>& choice, const llm::ChatRequest& request,
            const CancelToken& cancel);
  /// Tells the ensemble what an answer was worth.
  void settle(const Asked& asked);
  /// Sends the prefix that the seats of a region share to each coder's server, once, before the first of them asks: the
  /// others wait for it. Nothing where one seat is alone.
  void warm(const std::string& region, const llm::ChatRequest& first, const CancelToken& cancel);
  /// Patterns for a prompt; empty without a source.
  std::vector<std::string> patterns(std::string_view query, std::size_t k) const;

  /// An answer was read: whether there was something to use in it.
  void note_answer(bool usable);
  /// The built-in judge's words were taken, for this reason.
  void note_fallback(std::string reason);

  const PoolOptions& options() const { return options_; }
  struct Report {
    std::map<std::string, ModelCost> costs;  ///< by purpose; also `warm-up`
    std::int64_t answers = 0, unusable = 0;  ///< of coders: all, and those without a program (or an idea)
    std::int64_t judged = 0, judge_fallbacks = 0;
    std::string judge_trouble;                      ///< a reason why the judge was fallen back on: the first by text
    std::map<std::string, std::int64_t> fallbacks;  ///< "LABEL: what failed" → how often another model was asked
  };
  Report report() const;

 private:
  llm::Call call_for(std::string_view purpose, const CancelToken& cancel);
  void count(std::string_view purpose, const llm::Answer& answer);

  llm::Ensemble& ensemble_;
  PoolOptions options_;
  mutable std::mutex mutex_;  ///< of what follows
  Report report_;
  std::map<std::string, std::unique_ptr<std::once_flag>> warmed_;  ///< by region
};

}  // namespace planish::coder
