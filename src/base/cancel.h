#pragma once

#include <atomic>
#include <memory>

namespace planish {

/// A flag that says "stop as soon as it is clean to". Copies share the flag. cancel() is async-signal-safe, and all of
/// it thread-safe.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { flag_->store(true, std::memory_order_release); }
  bool cancelled() const { return flag_->load(std::memory_order_acquire); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace planish
