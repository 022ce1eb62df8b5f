#include "evaluate/session.h"

#include <fmt/core.h>

#include "evaluate/device_host.h"
#include "evaluate/task_evaluator.h"

namespace planish {

const ClaimTime* ClaimReply::find(std::string_view mode) const {
  for (const ClaimTime& time : times) {
    if (time.name == mode) return &time;
  }
  return nullptr;
}

EvaluatorSession::EvaluatorSession(worker::Toolbox tools, Limits limits) : tools_(std::move(tools)), limits_(limits) {}
EvaluatorSession::~EvaluatorSession() = default;

Result<std::shared_ptr<DeviceHost>> EvaluatorSession::device_for(const std::string& target) {
  std::scoped_lock lock(mutex_);
  if (const auto found = devices_.find(target); found != devices_.end()) return found->second;
  auto host = DeviceHost::open(tools_, target, limits_);
  if (host.has_value()) devices_[target] = *host;
  return host;
}

Result<std::shared_ptr<TaskEvaluator>> EvaluatorSession::find(const std::string& session) {
  std::scoped_lock lock(mutex_);
  const auto found = tasks_.find(session);
  if (found == tasks_.end()) return fail("no_session", fmt::format("there is no session `{}`", session));
  return found->second;
}

std::shared_ptr<TaskEvaluator> EvaluatorSession::take_kept(const OpenRequest& request) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<TaskEvaluator> task = std::move(kept_);
  kept_.reset();
  lock.unlock();
  // What is not taken ends when this returns, without the lock: its memory may be wanted for the other.
  return request.keep && task != nullptr && task->can_be_kept(request) ? task : nullptr;
}

Result<OpenReply> EvaluatorSession::open(const OpenRequest& request) {
  auto host = device_for(resolve_target(request.target));
  // A driver without a working GPU: `auto` falls back, an explicit `cuda` is an error.
  if (!host.has_value() && request.target == "auto" && host.error().kind == "no_device") host = device_for("cpu");
  if (!host.has_value()) return std::unexpected(std::move(host).error());
  auto task = take_kept(request);
  const bool kept = task != nullptr;
  if (!kept) task = std::make_shared<TaskEvaluator>(tools_, limits_, *host, request);
  PLANISH_TRY(auto reply, kept ? task->open_again(request) : task->open());
  reply.kept = kept;
  std::scoped_lock lock(mutex_);
  reply.session = fmt::format("s{}", next_++);
  tasks_[reply.session] = std::move(task);
  return reply;
}

Result<RegionReply> EvaluatorSession::region(const RegionRequest& request) {
  PLANISH_TRY(const auto task, find(request.session));
  return task->region(request);
}

Result<Evaluation> EvaluatorSession::evaluate(const EvaluateRequest& request) {
  PLANISH_TRY(const auto task, find(request.session));
  return task->evaluate(request);
}

Result<VerifyReply> EvaluatorSession::verify(const VerifyRequest& request) {
  PLANISH_TRY(const auto task, find(request.session));
  return task->verify(request);
}

Result<ClaimReply> EvaluatorSession::claim(const ClaimRequest& request) {
  PLANISH_TRY(const auto task, find(request.session));
  return task->claim(request);
}

Status EvaluatorSession::close(const std::string& session) {
  std::shared_ptr<TaskEvaluator> task;
  std::unique_lock lock(mutex_);
  const auto found = tasks_.find(session);
  if (found == tasks_.end()) return fail("no_session", fmt::format("there is no session `{}`", session));
  task = std::move(found->second);
  tasks_.erase(found);
  lock.unlock();
  if (limits_.stay_ready) task->make_ready();
  if (limits_.stay_ready && task->can_be_kept()) {
    lock.lock();
    std::swap(kept_, task);
    lock.unlock();
  }
  return {};
}

}  // namespace planish
