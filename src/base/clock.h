#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace planish {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

/// Where time comes from. Thread-safe. Code that schedules takes a Clock&, so that tests decide what time it is; code
/// that waits for a process or a socket uses the real steady clock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  /// Seconds since 1970, for what people read.
  virtual double wall_seconds() const = 0;
  virtual void sleep(Duration duration) = 0;
};

/// The machine's clocks. One object for the whole process.
Clock& real_clock();

/// Stands still until it is told to move; sleep() moves it.
class FakeClock : public Clock {
 public:
  TimePoint now() const override;
  double wall_seconds() const override;
  void sleep(Duration duration) override { advance(duration); }
  void advance(Duration duration);

 private:
  mutable std::mutex mutex_;
  Duration elapsed_{0};
};

/// The real steady clock's time `seconds` from now; what every `deadline` parameter takes.
TimePoint deadline_in(double seconds);
/// Real seconds from then to now.
double seconds_since(TimePoint then);
/// Real seconds left until a deadline; 0 once it has passed.
double seconds_until(TimePoint deadline);

}  // namespace planish
