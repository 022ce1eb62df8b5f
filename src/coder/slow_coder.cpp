#include "coder/slow_coder.h"

#include <fmt/format.h>

#include <utility>

namespace planish::coder {

SlowCoder::SlowCoder(std::unique_ptr<Writer> writer, std::function<void()> rouse, int most_errors)
    : writer_(std::move(writer)), rouse_(std::move(rouse)), most_errors_(most_errors), thread_([this] { work(); }) {}

SlowCoder::~SlowCoder() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  cancel_.cancel();
  wake_.notify_all();
  thread_.join();
}

Coder::Answer SlowCoder::ask(const Brief& brief) {
  const std::scoped_lock lock(mutex_);
  switch (state_) {
    case State::ready:
      state_ = State::idle;
      ++untold_;
      return {std::exchange(proposal_, std::nullopt), false};
    case State::failed:
      state_ = State::idle;
      return {{}, false, true};
    case State::finished:
      return {{}, true};
    case State::thinking:
      return {};
    case State::idle:
      break;
  }
  if (untold_ > 0) return {};  // it learns from what became of its last proposal
  brief_ = brief;
  writer_->prepare(brief_, news_);
  state_ = State::thinking;
  wake_.notify_all();
  return {};
}

void SlowCoder::tell(const Feedback& feedback) {
  const std::scoped_lock lock(mutex_);
  untold_ = std::max(untold_ - 1, 0);
  // One that is started anew after each failure, and begins with what it said before, gets nowhere.
  if (!feedback.duplicate && !feedback.error) errors_ = 0;
  news_.push_back(feedback);
}

bool SlowCoder::thinking() const {
  const std::scoped_lock lock(mutex_);
  return state_ == State::thinking;
}

std::string SlowCoder::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

void SlowCoder::work() {
  while (true) {
    Brief brief;
    std::vector<Feedback> news;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closing_ || state_ == State::thinking; });
      if (closing_) return;
      brief = brief_;
      news = std::exchange(news_, {});
    }
    auto written = writer_->write(brief, news, cancel_);
    {
      const std::scoped_lock lock(mutex_);
      if (!written) {
        trouble_ = fmt::format("{} ({})", written.error().message, written.error().kind.name());
        state_ = ++errors_ >= most_errors_ ? State::finished : State::failed;
      } else {
        state_ = *written ? State::ready : State::finished;
        proposal_ = std::move(*written);
      }
    }
    rouse_();
  }
}

}  // namespace planish::coder
