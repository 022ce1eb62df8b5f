#include "base/clock.h"

#include <algorithm>
#include <thread>

namespace planish {
namespace {

class RealClock : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  double wall_seconds() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  void sleep(Duration duration) override { std::this_thread::sleep_for(duration); }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

TimePoint FakeClock::now() const {
  std::scoped_lock lock(mutex_);
  return TimePoint(elapsed_);
}

double FakeClock::wall_seconds() const {
  std::scoped_lock lock(mutex_);
  return std::chrono::duration<double>(elapsed_).count();
}

void FakeClock::advance(Duration duration) {
  std::scoped_lock lock(mutex_);
  elapsed_ += duration;
}

TimePoint deadline_in(double seconds) {
  // A year stands for "never": larger values would overflow the clock.
  const double bounded = std::clamp(seconds, 0.0, 3.2e7);
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bounded));
}

double seconds_since(TimePoint then) {
  return std::chrono::duration<double>(real_clock().now() - then).count();
}

double seconds_until(TimePoint deadline) {
  return std::max(0.0, std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count());
}

}  // namespace planish
