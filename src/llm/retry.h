#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <type_traits>

#include "llm/provider.h"

namespace planish::llm {

struct RetryPolicy {
  int attempts = 6;                 ///< with the first
  int bad_replies = 2;              ///< of them, those that came back as nonsense
  double base_seconds = 0.5;        ///< the first wait is up to this long, each further one up to twice as long
  double most_seconds = 30;         ///< up to here; what a server asks for may be longer
  double most_asked_seconds = 300;  ///< who is asked to wait longer gives up
};

/// The one layer that asks again, whatever was asked. Thread-safe.
class Retries {
 public:
  /// `seed` makes the random waits. The clock outlives it.
  Retries(RetryPolicy policy, Clock& clock, std::uint64_t seed) : policy_(policy), clock_(clock), rng_(seed) {}
  /// `attempt(call)` until it succeeds or asking again cannot help; `seconds` are a limit of all attempts together.
  template <class Attempt>
  auto run(const std::string& label, double seconds, const Call& call, Attempt attempt)
      -> std::invoke_result_t<Attempt, const Call&> {
    Call bounded = call;
    bounded.deadline = std::min(
        call.deadline, clock_.now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
    int nonsense = 0;
    for (int number = 1;; ++number) {
      auto answer = attempt(bounded);
      if (answer || !again(answer.error(), label, number, nonsense, bounded)) return answer;
    }
  }

 private:
  /// Waits; false: `failure` is the answer.
  bool again(Failure& failure, const std::string& label, int attempt, int& nonsense, const Call& call);
  double jitter();
  /// False: cancelled.
  bool wait(double seconds, const CancelToken* cancel);
  const RetryPolicy policy_;
  Clock& clock_;
  std::mutex mutex_;
  std::mt19937_64 rng_;
};

/// A model with these retries. Waits what the server asks for, or a random part of a doubling time; gives up at once
/// where waiting cannot help, and where the wait would pass the deadline. A wait ends within 50 ms of a cancellation.
class RetryingProvider : public Provider {
 public:
  /// `seed` makes the random waits. The clock outlives it.
  RetryingProvider(std::shared_ptr<Provider> inner, RetryPolicy policy, Clock& clock, std::uint64_t seed);
  Answer complete(const ChatRequest& request, const Call& call) override;
  const ModelConfig& config() const override { return inner_->config(); }

 private:
  const std::shared_ptr<Provider> inner_;
  Retries retries_;
};

}  // namespace planish::llm
