#include "evaluate/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
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
  return found->second.task;
}

std::optional<EvaluatorSession::Opened> EvaluatorSession::kept(const OpenRequest& request) {
  // Seeds that somebody chose are to be drawn from their beginning.
  if (limits_.kept_tasks == 0 || request.seeds != 0) return std::nullopt;
  const auto source = read_file(request.task);
  if (!source.has_value()) return std::nullopt;
  const std::string sha256 = sha256_hex(*source);
  std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(kept_, [&](const Opened& one) {
    return one.request.task == request.task && one.request.target == request.target &&
           one.request.accuracy == request.accuracy && one.request.blobs == request.blobs &&
           one.request.task_timeout == request.task_timeout && one.reply.task_sha256 == sha256;
  });
  if (found == kept_.end()) return std::nullopt;
  Opened taken = std::move(*found);
  kept_.erase(found);
  return taken;
}

std::shared_ptr<TaskEvaluator> EvaluatorSession::take_tried(const OpenRequest& request) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<TaskEvaluator> task = std::move(tried_);
  tried_.reset();
  lock.unlock();
  // What is not taken ends when this returns, without the lock: its memory may be wanted for the other.
  return request.keep && task != nullptr && task->can_be_kept(request) ? task : nullptr;
}

Result<OpenReply> EvaluatorSession::open(const OpenRequest& request) {
  std::optional<Opened> opened = kept(request);
  if (!opened.has_value()) {
    auto host = device_for(resolve_target(request.target));
    // A driver without a working GPU: `auto` falls back, an explicit `cuda` is an error.
    if (!host.has_value() && request.target == "auto" && host.error().kind == "no_device") host = device_for("cpu");
    if (!host.has_value()) return std::unexpected(std::move(host).error());
    auto task = take_tried(request);
    const bool again = task != nullptr;
    if (!again) task = std::make_shared<TaskEvaluator>(tools_, limits_, *host, request);
    opened = Opened{request, {}, task};
    PLANISH_TRY(opened->reply, again ? task->open_again(request) : task->open());
    opened->reply.kept = again;
  }
  std::scoped_lock lock(mutex_);
  opened->reply.session = fmt::format("s{}", next_++);
  OpenReply reply = opened->reply;
  tasks_[reply.session] = std::move(*opened);
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
  std::unique_lock lock(mutex_);
  const auto found = tasks_.find(session);
  if (found == tasks_.end()) return fail("no_session", fmt::format("there is no session `{}`", session));
  Opened closed = std::move(found->second);
  tasks_.erase(found);
  std::list<Opened> gone;  // ended without the lock: their processes take a moment
  std::shared_ptr<TaskEvaluator> task = closed.task;
  // Who closes a session asks it nothing more: others hold no part of it then.
  if (limits_.kept_tasks > 0 && closed.request.seeds == 0 && task.use_count() == 2 && task->as_opened()) {
    kept_.push_front(std::move(closed));
    while (kept_.size() > limits_.kept_tasks) gone.splice(gone.end(), kept_, std::prev(kept_.end()));
  }
  lock.unlock();
  if (limits_.stay_ready) task->make_ready();
  if (limits_.stay_ready && task->can_be_kept()) {
    lock.lock();
    std::swap(tried_, task);
    lock.unlock();
  }
  return {};
}

}  // namespace planish
