#include "evaluate/device_turn.h"

#include <utility>

namespace planish {

void DeviceTurn::of(std::string uuid, bool on_host) {
  uuid_ = std::move(uuid);
  on_host_ = on_host;
}

Status DeviceTurn::begin(const std::string& who, double timeout_seconds) {
  if (on_host_ || running_.has_value()) return {};
  PLANISH_TRY(auto lock, lock_device(uuid_, who, timeout_seconds, DeviceUse::run));
  running_.emplace(std::move(lock));
  return {};
}

Result<DeviceTurn::Measuring> DeviceTurn::measure(const std::string& who, double timeout_seconds) {
  const bool ran = running_.has_value();
  running_.reset();
  auto lock = lock_device(uuid_, who, timeout_seconds);
  if (!lock.has_value()) {
    // What follows a measurement that was not made runs on the device as well.
    if (ran) (void)begin(who, 0);
    return std::unexpected(std::move(lock).error());
  }
  return Measuring(*this, std::move(*lock), ran);
}

DeviceTurn::Measuring::Measuring(Measuring&& other) noexcept
    : turn_(other.turn_), lock_(std::exchange(other.lock_, std::nullopt)), ran_(other.ran_) {}

DeviceTurn::Measuring::~Measuring() {
  if (!lock_.has_value() || !ran_) return;
  lock_->describe("");
  // Where somebody was quicker, who measures now has the device to himself but for the end of this stage: the next one
  // waits for him.
  if (lock_->share()) turn_->running_ = std::move(lock_);
}

}  // namespace planish
