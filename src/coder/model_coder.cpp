#include "coder/model_coder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "coder/model_answer.h"
#include "coder/slow_coder.h"

namespace planish::coder {
namespace {

/// Messages of the conversation that are kept: older turns cost tokens and say little.
constexpr std::size_t most_messages = 6;
/// Of an answer, for the bandit over models.
constexpr double worth_right = 0.3, worth_best = 1;

llm::Message message(llm::Speaker speaker, std::string text) {
  llm::Message out;
  out.speaker = speaker;
  out.text = std::move(text);
  return out;
}

class ModelWriter : public Writer {
 public:
  ModelWriter(std::shared_ptr<ModelPool> pool, int number) : pool_(std::move(pool)), number_(number) {}

  Result<std::optional<Proposal>> write(const Brief& brief, const std::vector<Feedback>& news,
                                        const CancelToken& cancel) override {
    settle(news);
    AnswerParent parent;
    if (!brief.best.empty()) {
      parent.program = brief.best.front().program;
      if (auto source = source_of(*brief.domain, brief.best.front().proposal)) parent.source = std::move(*source);
    }
    best_ms_ = brief.best.empty() ? 0 : brief.best.front().ms;
    llm::ChatRequest request;
    request.lane = fmt::format("{} seat {}", brief.region, number_);
    request.system = system_prompt(pool_->facts(), brief);
    const std::size_t old = talk_.size() - std::min(talk_.size(), most_messages);
    request.messages.assign(talk_.begin() + static_cast<std::ptrdiff_t>(old), talk_.end());
    request.messages.push_back(message(llm::Speaker::user, request_text(brief, news)));
    PLANISH_TRY(auto asked, pool_->ask(request, cancel));
    auto proposal = proposal_in(asked.outcome.answer->text, parent);
    if (!proposal) {
      request.messages.push_back(message(llm::Speaker::assistant, asked.outcome.answer->text));
      request.messages.push_back(
          message(llm::Speaker::user, proposal.error().message + ". Answer again, in the form asked for."));
      pool_->reward(asked, 0);
      PLANISH_TRY(asked, pool_->ask(request, cancel));
      proposal = proposal_in(asked.outcome.answer->text, parent);
    }
    if (!proposal) {
      pool_->reward(asked, 0);
      return std::unexpected(std::move(proposal.error()));
    }
    talk_.assign(request.messages.begin(), request.messages.end());
    talk_.push_back(message(llm::Speaker::assistant, asked.outcome.answer->text));
    asked_ = std::move(asked);
    return std::move(*proposal);
  }

 private:
  /// What became of the last answer is what it was worth.
  void settle(const std::vector<Feedback>& news) {
    if (!asked_ || news.empty()) return;
    const Feedback& last = news.back();
    const bool best = last.ok && (best_ms_ <= 0 || last.median_ms < best_ms_);
    pool_->reward(*asked_, best ? worth_best : last.ok ? worth_right : 0);
    asked_.reset();
  }

  std::shared_ptr<ModelPool> pool_;
  int number_;
  std::vector<llm::Message> talk_;
  std::optional<ModelPool::Asked> asked_;  ///< whose answer is being judged
  double best_ms_ = 0;                     ///< when it was asked; 0: nothing was right
};

}  // namespace

Result<ModelPool::Asked> ModelPool::ask(const llm::ChatRequest& request, const CancelToken& cancel) {
  Asked out;
  {
    const std::scoped_lock lock(mutex_);
    PLANISH_TRY(out.choice, ensemble_.choose(llm::Role::coder));
  }
  llm::Call call;
  call.cancel = &cancel;
  out.outcome = ensemble_.complete(out.choice, request, call);
  if (out.outcome.answer) return out;
  reward(out, 0);
  return std::unexpected(out.outcome.answer.error().error);
}

void ModelPool::reward(const Asked& asked, double worth) {
  const std::scoped_lock lock(mutex_);
  ensemble_.tell(asked.choice, asked.outcome, worth);
}

Seat model_seat(std::shared_ptr<ModelPool> pool, int number) {
  Seat seat;
  seat.name = fmt::format("models {}", number);
  seat.make = [pool = std::move(pool), number](const Brief&, std::function<void()> rouse) -> std::unique_ptr<Coder> {
    return std::make_unique<SlowCoder>(std::make_unique<ModelWriter>(pool, number), std::move(rouse));
  };
  return seat;
}

}  // namespace planish::coder
