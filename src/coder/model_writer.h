#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coder/model_answer.h"
#include "coder/model_pool.h"
#include "coder/slow_coder.h"

namespace planish::coder {

/// What all ways of working with models have in common: who is asked is chosen on the search's thread, answers are paid
/// for by what became of them, an answer without a program has one turn to be mended, a judge is heard.
class ModelWriter : public Writer {
 public:
  /// `number` tells seats of a region apart, from 1. `plans`: plan() will be called.
  ModelWriter(std::shared_ptr<ModelPool> pool, int number, bool plans)
      : pool_(std::move(pool)), number_(number), plans_(plans) {}
  void prepare(const Brief& brief, const std::vector<Feedback>& news) override;

 protected:
  ModelPool& pool() { return *pool_; }
  int number() const { return number_; }
  std::string lane(const Brief& brief) const;
  /// The one among the best that this seat works on; null where nothing is right yet. Seats differ, so that not all
  /// climb the same hill.
  const Brief::Known* parent(const Brief& brief) const;
  /// With a model as judge: its words for the last of the news, in place of the built-in judge's. Where it fails, those
  /// stay.
  std::vector<Feedback> heard(const Brief& brief, std::vector<Feedback> news, const CancelToken& cancel);
  /// The prompt of a coder, with patterns for the region and for what limits its best.
  std::vector<llm::PromptPart> coder_parts(const Brief& brief, const std::vector<Feedback>& news);
  std::vector<llm::PromptPart> planner_parts(const Brief& brief, const std::vector<Feedback>& news);

  /// A program. `talk` ends with the question, and gets the answer appended where that held one. Kinds: those of
  /// llm::Failure, `bad_answer`.
  Result<Proposal> program(std::string_view purpose, llm::ChatRequest& request, const Brief& brief,
                           const Brief::Known* parent, const CancelToken& cancel);
  /// An answer in a schema; JSON text, or what was said instead of it. Kinds: those of llm::Failure.
  struct Words {
    std::string json, text;
  };
  Result<Words> plan(llm::ChatRequest request, std::string_view schema_name, std::string_view schema,
                     const CancelToken& cancel);

 private:
  PromptPatterns patterns(const Brief& brief, const std::vector<Feedback>& news);

  std::shared_ptr<ModelPool> pool_;
  int number_;
  bool plans_;
  ModelPool::Choices choices_;
  std::vector<ModelPool::Asked> open_;  ///< answers that are not settled; worth < 0: as what comes of the program
  double best_ms_ = 0;                  ///< when they were asked; 0: nothing was right
  std::string issue_;                   ///< of the judge, about the last program
  std::optional<std::vector<std::string>> task_patterns_;
};

/// A message of a conversation.
llm::Message said(llm::Speaker speaker, std::string text);

}  // namespace planish::coder
