#include "evaluate/runner_host.h"

namespace planish {

Result<worker::Runner> RunnerHost::start(worker::Runner::Kind kind) {
  return worker::Runner::start(tools_, kind, device_, memory_limit_);
}

Result<worker::Runner*> RunnerHost::get(worker::Runner::Kind kind) {
  std::optional<worker::Runner>& slot = kind == worker::Runner::Kind::native ? native_ : torch_;
  if (slot.has_value() && slot->alive()) return &*slot;
  slot.reset();
  if (kind == worker::Runner::Kind::native && spare_.has_value()) {
    slot = std::move(spare_);
    spare_.reset();
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

void RunnerHost::discard(worker::Runner::Kind kind) {
  (kind == worker::Runner::Kind::native ? native_ : torch_).reset();
}

void RunnerHost::warm_up() {
  // Without hello: on a GPU that would make a second context, which costs memory that a task may need.
  if (spare_.has_value()) return;
  auto runner = start(worker::Runner::Kind::native);
  if (runner.has_value()) spare_ = std::move(*runner);
}

}  // namespace planish
