#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "coder/coder.h"

namespace planish::coder {

/// Somebody who takes their time: what a SlowCoder calls from a thread of its own.
class Writer {
 public:
  virtual ~Writer() = default;
  /// Called on the search's thread right before write() is begun with the same brief and news: what must be decided in
  /// the search's own order (which model is asked) is decided here.
  virtual void prepare(const Brief& brief, const std::vector<Feedback>& news) {
    (void)brief;
    (void)news;
  }
  /// The next proposal; nothing where there is none any more. `news`: what became of earlier ones since the last call.
  /// May block until `cancel`.
  virtual Result<std::optional<Proposal>> write(const Brief& brief, const std::vector<Feedback>& news,
                                                const CancelToken& cancel) = 0;
};

/// A coder that thinks in a thread of its own, one proposal ahead of what was taken: it is asked again once its last
/// proposal was told. An error is an answer too (Answer::failed). After `most_errors` without a program between them
/// that was new and could be built it is finished. trouble() is the last of them.
class SlowCoder : public Coder {
 public:
  SlowCoder(std::unique_ptr<Writer> writer, std::function<void()> rouse, int most_errors = 3);
  ~SlowCoder() override;  ///< cancels, and waits for the thread
  Answer ask(const Brief& brief) override;
  void tell(const Feedback& feedback) override;
  bool thinking() const override;
  std::string trouble() const override;

 private:
  enum class State : std::uint8_t { idle, thinking, ready, failed, finished };
  void work();

  std::unique_ptr<Writer> writer_;
  std::function<void()> rouse_;
  int most_errors_;
  CancelToken cancel_;
  mutable std::mutex mutex_;  ///< of everything below
  std::condition_variable wake_;
  State state_ = State::idle;
  bool closing_ = false;
  int untold_ = 0;  ///< proposals taken and not yet told
  int errors_ = 0;
  Brief brief_;
  std::vector<Feedback> news_;
  std::optional<Proposal> proposal_;
  std::string trouble_;
  std::thread thread_;
};

}  // namespace planish::coder
