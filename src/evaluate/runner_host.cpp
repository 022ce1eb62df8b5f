#include "evaluate/runner_host.h"

#include <utility>

namespace planish {

Result<worker::Runner> RunnerHost::start(worker::Runner::Kind kind, bool own_code) {
  return worker::Runner::start(tools_, kind, device_, memory_limit_, own_code);
}

Result<worker::Runner*> RunnerHost::get(worker::Runner::Kind kind) {
  std::optional<worker::Runner>& slot = kind == worker::Runner::Kind::native ? native_ : torch_;
  if (slot.has_value() && slot->running()) return &*slot;
  slot.reset();
  used(kind) = false;
  if (kind == worker::Runner::Kind::native && spare_.has_value()) {
    slot = std::move(spare_);
    spare_.reset();
  } else if (kind == worker::Runner::Kind::torch) {
    PLANISH_TRY(slot, fresh_torch());
  } else {
    PLANISH_TRY(slot, start(kind));
  }
  auto hello = slot->hello(device_);
  if (!hello.has_value()) {
    slot.reset();
    return std::unexpected(std::move(hello).error());
  }
  if (kind == worker::Runner::Kind::native) hello_ = std::move(*hello);
  return &*slot;
}

bool& RunnerHost::used(worker::Runner::Kind kind) {
  return kind == worker::Runner::Kind::native ? native_used_ : torch_used_;
}

Result<worker::Runner*> RunnerHost::get_for_candidate(worker::Runner::Kind kind, bool fresh, bool* after_others) {
  if (fresh && used(kind)) {
    discard(kind);
    if (kind == worker::Runner::Kind::native) warm_up();
  }
  PLANISH_TRY(worker::Runner * runner, get(kind));
  if (after_others != nullptr) *after_others = used(kind);
  used(kind) = true;
  return runner;
}

void RunnerHost::discard(worker::Runner::Kind kind) {
  (kind == worker::Runner::Kind::native ? native_ : torch_).reset();
}

void RunnerHost::warm_up_torch(std::size_t count) {
  std::erase_if(torch_spares_, [](worker::Runner& spare) { return !spare.running(); });
  while (torch_spares_.size() < count) {
    auto runner = start(worker::Runner::Kind::torch);
    if (!runner.has_value()) return;
    torch_spares_.push_back(std::move(*runner));
  }
}

void RunnerHost::warm_up_own() {
  if (own_spare_.has_value() && own_spare_->running()) return;
  own_spare_.reset();
  if (auto runner = start(worker::Runner::Kind::torch, true); runner.has_value()) own_spare_ = std::move(*runner);
}

void RunnerHost::settle() {
  std::erase_if(torch_spares_, [&](worker::Runner& spare) { return !spare.hello(device_).has_value(); });
  if (own_spare_.has_value() && !own_spare_->hello(device_).has_value()) own_spare_.reset();
}

Result<worker::Runner> RunnerHost::fresh_torch(bool own_code) {
  if (own_code) {
    std::optional<worker::Runner> taken = std::exchange(own_spare_, std::nullopt);
    if (taken.has_value() && taken->running()) return std::move(*taken);
    return start(worker::Runner::Kind::torch, true);
  }
  while (!torch_spares_.empty()) {
    // The oldest has imported most.
    worker::Runner taken = std::move(torch_spares_.front());
    torch_spares_.erase(torch_spares_.begin());
    if (taken.running()) return taken;
  }
  return start(worker::Runner::Kind::torch);
}

void RunnerHost::warm_up() {
  // Without hello: on a GPU that would make a second context, which costs memory that a task may need.
  if (spare_.has_value()) return;
  auto runner = start(worker::Runner::Kind::native);
  if (runner.has_value()) spare_ = std::move(*runner);
}

}  // namespace planish
