#include "cli/mcp/warm_evaluator.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/file.h"
#include "worker/toolbox.h"

namespace planish::cli {

struct WarmEvaluator::Watch::State {
  WarmEvaluator& owner;
  EvaluatorClient& connection;
  mcp::Call call;
  std::atomic<bool> over{false};
  std::thread thread{};
};

WarmEvaluator::Watch::Watch(WarmEvaluator& owner, EvaluatorClient& connection, const mcp::Call& call)
    : state_(std::make_unique<State>(owner, connection, call)) {
  connection.listen([call](std::string_view text) { call.progress(text); });
  state_->thread = std::thread([state = state_.get()] {
    while (!state->over) {
      if (state->call.cancel.cancelled()) return state->connection.shutdown();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

WarmEvaluator::Watch::~Watch() {
  state_->over = true;
  state_->thread.join();
  state_->connection.listen({});
  state_->owner.leave(state_->call.cancel.cancelled());
}

Result<std::unique_ptr<EvaluatorClient>> WarmEvaluator::connect() {
  const std::scoped_lock lock(mutex_);
  PLANISH_CHECK(worker::Toolbox::resolve().check());
  const auto joined = [this]() -> Result<std::unique_ptr<EvaluatorClient>> {
    auto client = EvaluatorClient::connect(folder_->path() / "evaluator");
    if (client) ++users_;
    return client;
  };
  if (anchor_ != nullptr) {
    if (auto client = joined()) return client;
    anchor_.reset();  // it died
  }
  PLANISH_TRY(folder_, OwnedFolder::create("planish-ev-"));
  constexpr double start_seconds = 60;
  PLANISH_TRY(anchor_, EvaluatorClient::spawn(executable_path(), folder_->path() / "evaluator", start_seconds,
                                              {"--task-timeout", fmt::format("{}", task_timeout_), "--ready", "1"}));
  return joined();
}

void WarmEvaluator::leave(bool cancelled) {
  const std::scoped_lock lock(mutex_);
  --users_;
  if (!cancelled || users_ > 0 || anchor_ == nullptr) return;
  anchor_->shutdown();  // ended, not waited for
  anchor_.reset();
}

}  // namespace planish::cli
