#include "cli/mcp/warm_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/file.h"
#include "worker/toolbox.h"

namespace planish::cli {

struct WarmEvaluator::Watch::State {
  EvaluatorClient& connection;
  mcp::Call call;
  std::atomic<bool> over{false};
  std::thread thread{};
};

WarmEvaluator::Watch::Watch(EvaluatorClient& connection, const mcp::Call& call)
    : state_(std::make_unique<State>(connection, call)) {
  connection.listen([call](const WorkReport& report) { call.progress(report.text); });
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
}

WarmEvaluator::Running::~Running() {
  if (anchor != nullptr && spoiled) anchor->shutdown();  // ended, not waited for
}

void WarmEvaluator::leave(Running& running, const mcp::Call& call) {
  const std::scoped_lock lock(mutex_);
  std::erase(running.calls, &call);
  if (!call.cancel.cancelled()) return;
  running.spoiled = true;
  if (running_.get() == &running) running_.reset();
}

Result<WarmEvaluator::Joined> WarmEvaluator::join(const mcp::Call& call) {
  const std::scoped_lock lock(mutex_);
  PLANISH_CHECK(worker::Toolbox::resolve().check());
  const auto joined = [&]() -> Result<Joined> {
    PLANISH_TRY(auto connection, EvaluatorClient::connect(running_->folder.path() / "evaluator"));
    running_->calls.push_back(&call);
    return Joined{running_, std::move(connection)};
  };
  // What was cancelled may take as long as a task may: nobody waits behind it.
  const auto cancelled = [](const mcp::Call* each) { return each->cancel.cancelled(); };
  if (running_ != nullptr && std::ranges::any_of(running_->calls, cancelled)) {
    running_->spoiled = true;
    running_.reset();
  }
  if (running_ != nullptr) {
    if (auto done = joined()) return done;
    running_.reset();  // it died
  }
  PLANISH_TRY(auto folder, OwnedFolder::create("planish-ev-"));
  constexpr double start_seconds = 60;
  PLANISH_TRY(auto anchor,
              EvaluatorClient::spawn(executable_path(), folder.path() / "evaluator", start_seconds,
                                     {"--task-timeout", fmt::format("{}", task_timeout_), "--ready", "1"}));
  running_ = std::make_shared<Running>(std::move(folder), std::move(anchor));
  return joined();
}

}  // namespace planish::cli
