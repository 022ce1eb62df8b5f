#include "evaluate/session.h"

#include <fmt/core.h>

#include <iterator>
#include <utility>

#include "backend/backend.h"
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

EvaluatorSession::Task EvaluatorSession::take_kept(const OpenRequest& request) {
  std::list<Task> gone;  // ended without the lock: their processes take a moment, and their memory may be wanted
  std::scoped_lock lock(mutex_);
  Task taken;
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto next = std::next(at);
    if (taken == nullptr && (*at)->can_be_kept(request)) {
      taken = std::move(*at);
      kept_.erase(at);
    } else if ((*at)->for_tries()) {
      gone.splice(gone.end(), kept_, at);
    }
    at = next;
  }
  return taken;
}

void EvaluatorSession::keep(Task task) {
  // Who closes a session asks it nothing more: others hold no part of it then.
  if (task.use_count() != 1 || !task->can_be_kept()) return;
  const bool tries = task->for_tries();
  const std::size_t room = tries ? (limits_.stay_ready ? 1 : 0) : limits_.kept_tasks;
  if (room == 0) return;
  if (!tries) task->let_go();  // other tasks come between, and a reference may need the whole device
  std::list<Task> gone;
  std::scoped_lock lock(mutex_);
  kept_.push_front(std::move(task));
  std::size_t alike = 0;
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto next = std::next(at);
    if ((*at)->for_tries() == tries && ++alike > room) gone.splice(gone.end(), kept_, at);
    at = next;
  }
}

Result<OpenReply> EvaluatorSession::open(const OpenRequest& request) {
  Task task = take_kept(request);
  const bool again = task != nullptr;
  if (!again) {
    auto host = device_for(resolve_target(request.target));
    // A driver without a working GPU: `auto` falls back, an explicit target is an error.
    if (!host.has_value() && request.target == "auto" && host.error().kind == "no_device")
      host = device_for(backend::cpu().name);
    if (!host.has_value()) return std::unexpected(std::move(host).error());
    task = std::make_shared<TaskEvaluator>(tools_, limits_, *host, request);
  }
  PLANISH_TRY(OpenReply reply, again ? task->open_again(request) : task->open());
  reply.kept = again;
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
  std::unique_lock lock(mutex_);
  const auto found = tasks_.find(session);
  if (found == tasks_.end()) return fail("no_session", fmt::format("there is no session `{}`", session));
  Task task = std::move(found->second);
  tasks_.erase(found);
  lock.unlock();
  if (limits_.stay_ready) task->make_ready();
  keep(std::move(task));
  return {};
}

}  // namespace planish
