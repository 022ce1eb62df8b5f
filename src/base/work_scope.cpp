#include "base/work_scope.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace planish {
namespace {

thread_local WorkScope* current = nullptr;

}  // namespace

WorkScope::WorkScope(double seconds, Listener listener)
    : outer_(current),
      deadline_(deadline_in(std::max(seconds, 0.0))),
      limited_(seconds > 0),
      listener_(std::move(listener)) {
  if (outer_ != nullptr && outer_->limited_) {
    deadline_ = limited_ ? std::min(deadline_, outer_->deadline_) : outer_->deadline_;
    limited_ = true;
  }
  current = this;
}

WorkScope::~WorkScope() {
  current = outer_;
}

double work_seconds_left() {
  if (current == nullptr || !current->limited_) return std::numeric_limits<double>::infinity();
  return std::max(seconds_until(current->deadline_), 0.0);
}

double work_seconds(double seconds) {
  return std::min(seconds, work_seconds_left());
}

void report_work(const WorkReport& report) {
  for (WorkScope* scope = current; scope != nullptr; scope = scope->outer_) {
    if (scope->listener_) return scope->listener_(report);
  }
}

}  // namespace planish
