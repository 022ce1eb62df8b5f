#include "evaluate/runner_host.h"

namespace planish {

Result<worker::Runner> RunnerHost::start(worker::Runner::Kind kind) {
  return worker::Runner::start(tools_, kind, device_, memory_limit_);
}

Result<worker::Runner*> RunnerHost::get(worker::Runner::Kind kind) {
  std::optional<worker::Runner>& slot = kind == worker::Runner::Kind::native ? native_ : torch_;
  if (slot.has_value() && slot->alive()) return &*slot;
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

Result<worker::Runner*> RunnerHost::get_for_candidate(worker::Runner::Kind kind, bool fresh) {
  if (fresh && used(kind)) {
    discard(kind);
    if (kind == worker::Runner::Kind::native) warm_up();
  }
  PLANISH_TRY(worker::Runner * runner, get(kind));
  used(kind) = true;
  return runner;
}

void RunnerHost::discard(worker::Runner::Kind kind) {
  (kind == worker::Runner::Kind::native ? native_ : torch_).reset();
}

void RunnerHost::warm_up_torch() {
  if (torch_spare_.has_value() && torch_spare_->running()) return;
  torch_spare_.reset();
  if (auto runner = start(worker::Runner::Kind::torch); runner.has_value()) torch_spare_ = std::move(*runner);
}

Result<worker::Runner> RunnerHost::fresh_torch() {
  if (torch_spare_.has_value() && torch_spare_->running()) {
    worker::Runner taken = std::move(*torch_spare_);
    torch_spare_.reset();
    return taken;
  }
  torch_spare_.reset();
  return start(worker::Runner::Kind::torch);
}

void RunnerHost::warm_up() {
  // Without hello: on a GPU that would make a second context, which costs memory that a task may need.
  if (spare_.has_value()) return;
  auto runner = start(worker::Runner::Kind::native);
  if (runner.has_value()) spare_ = std::move(*runner);
}

}  // namespace planish
