#include "coder/model_coder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "coder/model_approaches.h"

namespace planish::coder {
namespace {

/// Messages of the conversation that are kept: older turns cost tokens and say little.
constexpr std::size_t most_messages = 6;

class Conversation : public ModelWriter {
 public:
  Conversation(std::shared_ptr<ModelPool> pool, int number, int turns)
      : ModelWriter(std::move(pool), number, false), turns_(turns) {}

  Result<std::optional<Proposal>> write(const Brief& brief, const std::vector<Feedback>& news,
                                        const CancelToken& cancel) override {
    if (turns_ > 0 && ++turn_ > turns_) return std::nullopt;
    const auto heard_news = heard(brief, news, cancel);
    const Brief::Known* known = parent(brief);
    llm::ChatRequest request;
    request.lane = lane(brief);
    request.system = coder_parts(brief, heard_news);
    const std::size_t old = talk_.size() - std::min(talk_.size(), most_messages);
    request.messages.assign(talk_.begin() + static_cast<std::ptrdiff_t>(old), talk_.end());
    request.messages.push_back(said(llm::Speaker::user, news_text(heard_news) + parent_text(brief, known)));
    PLANISH_TRY(auto proposal, program("coder", request, brief, known, cancel));
    talk_ = std::move(request.messages);
    return proposal;
  }

 private:
  int turns_, turn_ = 0;
  std::vector<llm::Message> talk_;
};

class Samples : public ModelWriter {
 public:
  Samples(std::shared_ptr<ModelPool> pool, int number, int turns)
      : ModelWriter(std::move(pool), number, false), turns_(turns) {}

  Result<std::optional<Proposal>> write(const Brief& brief, const std::vector<Feedback>&,
                                        const CancelToken& cancel) override {
    if (++turn_ > turns_) return std::nullopt;
    llm::ChatRequest request;
    request.lane = fmt::format("{} sample {}", lane(brief), turn_);
    // What others found would make the samples depend on each other.
    request.system = coder_parts(brief, {});
    request.messages.push_back(said(llm::Speaker::user, "Write the fastest program that you can."));
    PLANISH_TRY(auto proposal, program("coder", request, brief, nullptr, cancel));
    return proposal;
  }

 private:
  int turns_, turn_ = 0;
};

}  // namespace

std::string_view name(Approach approach) {
  return approach_names[static_cast<std::size_t>(approach)];
}

std::optional<Approach> approach_from_name(std::string_view text) {
  const auto found = std::ranges::find(approach_names, text);
  if (found == approach_names.end()) return std::nullopt;
  return static_cast<Approach>(found - approach_names.begin());
}

int usual_turns(Approach approach) {
  switch (approach) {
    case Approach::converse:
      return 0;
    case Approach::one_shot:
      return 1;
    case Approach::refine:
    case Approach::roles:
      return 8;
    case Approach::samples:
    case Approach::ideas:
      break;
  }
  return 16;
}

std::unique_ptr<Writer> conversation_writer(std::shared_ptr<ModelPool> pool, int number, int turns) {
  return std::make_unique<Conversation>(std::move(pool), number, turns);
}

std::unique_ptr<Writer> samples_writer(std::shared_ptr<ModelPool> pool, int number, int turns) {
  return std::make_unique<Samples>(std::move(pool), number, turns);
}

Seat model_seat(std::shared_ptr<ModelPool> pool, int number, Approach approach) {
  Seat seat;
  seat.name = fmt::format("models {}", number);
  seat.make = [pool = std::move(pool), number, approach](const Brief&,
                                                         std::function<void()> rouse) -> std::unique_ptr<Coder> {
    const int asked = pool->options().turns;
    const int turns = asked > 0 && approach != Approach::one_shot ? asked : usual_turns(approach);
    auto writer = approach == Approach::samples ? samples_writer(pool, number, turns)
                  : approach == Approach::ideas ? ideas_writer(pool, number, turns)
                  : approach == Approach::roles ? roles_writer(pool, number, turns)
                                                : conversation_writer(pool, number, turns);
    return std::make_unique<SlowCoder>(std::move(writer), std::move(rouse));
  };
  return seat;
}

}  // namespace planish::coder
