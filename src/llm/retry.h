#pragma once

#include <memory>
#include <mutex>
#include <random>

#include "llm/provider.h"

namespace planish::llm {

struct RetryPolicy {
  int attempts = 6;                 ///< with the first
  int bad_replies = 2;              ///< of them, those that came back as nonsense
  double base_seconds = 0.5;        ///< the first wait is up to this long, each further one up to twice as long
  double most_seconds = 30;         ///< up to here; what a server asks for may be longer
  double most_asked_seconds = 300;  ///< who is asked to wait longer gives up
};

/// The one layer that asks again. Waits what the server asks for, or a random part of a doubling time; gives up at once
/// where waiting cannot help, and where the wait would pass the deadline. A wait ends within 50 ms of a cancellation.
class RetryingProvider : public Provider {
 public:
  /// `seed` makes the random waits. The clock outlives it.
  RetryingProvider(std::shared_ptr<Provider> inner, RetryPolicy policy, Clock& clock, std::uint64_t seed);
  Answer complete(const ChatRequest& request, const Call& call) override;
  const ModelConfig& config() const override { return inner_->config(); }

 private:
  double jitter();
  /// False: cancelled.
  bool wait(double seconds, const CancelToken* cancel);
  const std::shared_ptr<Provider> inner_;
  const RetryPolicy policy_;
  Clock& clock_;
  std::mutex mutex_;
  std::mt19937_64 rng_;
};

}  // namespace planish::llm
