#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/clock.h"

namespace planish {

/// What is being done or waited for, in words; where it is one of several things alike, the `number`th of `all`.
struct WorkReport {
  std::string_view text;
  int number = 0, all = 0;
  double seconds = 0;  ///< it takes so many more, by what was measured; 0 where nobody can say
};

/// What the work that this thread does now is for: until when somebody waits for it, and who hears what it waits for
/// itself. Scopes nest: an inner one never has longer than the outer one, and speaks to the outer one's listener where
/// it names none. A scope belongs to the thread that made it; what it starts in other threads makes its own.
class WorkScope {
 public:
  using Listener = std::function<void(const WorkReport&)>;
  /// `seconds` ≤ 0: no limit of its own.
  explicit WorkScope(double seconds, Listener listener = {});
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  friend double work_seconds_left();
  friend void report_work(const WorkReport& report);
  WorkScope* outer_;
  TimePoint deadline_;
  bool limited_;
  Listener listener_;
};

/// Seconds until nobody waits any more for what this thread does; infinity without a limit, never below 0.
double work_seconds_left();
/// The lesser of `seconds` and what is left.
double work_seconds(double seconds);
/// Work in a thread of its own, until when this one's is waited for. What the work reads must outlive it.
template <typename Work>
std::future<std::invoke_result_t<Work>> with_time_left(Work work) {
  return std::async(std::launch::async, [work = std::move(work), left = work_seconds_left()]() mutable {
    // No time at all is not 0, which would be no limit.
    const WorkScope scope(std::isfinite(left) ? std::max(left, 1e-3) : 0);
    return work();
  });
}

/// Says what is being done or waited for, to whoever listens to this thread's work. Cheap where nobody does.
void report_work(const WorkReport& report);
inline void report_work(std::string_view text) {
  report_work(WorkReport{text});
}

}  // namespace planish
