#include "llm/retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace planish::llm {

RetryingProvider::RetryingProvider(std::shared_ptr<Provider> inner, RetryPolicy policy, Clock& clock,
                                   std::uint64_t seed)
    : inner_(std::move(inner)), retries_(policy, clock, seed) {}

double Retries::jitter() {
  std::scoped_lock lock(mutex_);
  return static_cast<double>(rng_() >> 11U) * 0x1p-53;
}

bool Retries::wait(double seconds, const CancelToken* cancel) {
  const TimePoint end = clock_.now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  while (clock_.now() < end) {
    if (cancel != nullptr && cancel->cancelled()) return false;
    clock_.sleep(std::min<Duration>(end - clock_.now(), std::chrono::milliseconds(50)));
  }
  return cancel == nullptr || !cancel->cancelled();
}

bool Retries::again(Failure& failure, const std::string& label, int attempt, int& nonsense, const Call& call) {
  if (failure.error.kind == "model_bad_reply" && ++nonsense >= policy_.bad_replies) failure.retry = false;
  if (!failure.retry) return false;
  if (attempt >= policy_.attempts) {
    failure.error.causes.push_back(fmt::format("the last of {} attempts", attempt));
    return false;
  }
  // Servers that ask for a time get it and a little more: all seats were told the same.
  const double doubling =
      std::min(policy_.most_seconds, policy_.base_seconds * std::ldexp(1.0, std::min(attempt - 1, 30)));
  const double seconds = failure.wait_seconds ? *failure.wait_seconds + jitter() * std::min(1.0, policy_.base_seconds)
                                              : doubling * jitter();
  const double left = std::chrono::duration<double>(call.deadline - clock_.now()).count();
  if (seconds >= left || seconds > policy_.most_asked_seconds) {
    failure.error.causes.push_back(fmt::format("not asked again: the wait of {:.3g} s is too long ({:.3g} s are left)",
                                               seconds, std::max(0.0, left)));
    return false;
  }
  call.tell({CallEvent::Kind::waiting, label, failure.error.message, seconds, {}});
  if (wait(seconds, call.cancel)) return true;
  failure = {{"cancelled", "cancelled while waiting to ask a model again", {}, {}}, false, false, false, {}};
  return false;
}

Answer RetryingProvider::complete(const ChatRequest& request, const Call& call) {
  return retries_.run(config().label, config().timeout_seconds, call,
                      [&](const Call& bounded) { return inner_->complete(request, bounded); });
}

}  // namespace planish::llm
