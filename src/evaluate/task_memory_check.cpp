#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/work_scope.h"
#include "evaluate/memory_verdict.h"
#include "evaluate/task_evaluator.h"
#include "worker/memory_check.h"

// NVIDIA's compute-sanitizer on what was verified (docs/decisions/0064-memory-checks.md).
namespace planish {
namespace {

/// Of the device's memory, that what a call needs may take so that the tools run side by side.
constexpr double small_share = 0.05;

std::vector<worker::MemoryCheck> not_run(const char* why) {
  std::vector<worker::MemoryCheck> out;
  for (const char* tool : worker::memory_tools) {
    worker::MemoryCheck check;
    check.tool = tool;
    check.reason = why;
    out.push_back(std::move(check));
  }
  return out;
}

}  // namespace

void TaskEvaluator::check_memory(const VerifyRequest& request, VerifyReply& reply) {
  if (backend::named(device_->facts.target).on_host || !reply.verified) return;
  if (!request.memory_check) {
    reply.memory = not_run("not asked for");
    return;
  }
  if (tools_.compute_sanitizer.empty()) {
    reply.memory = not_run("compute-sanitizer is not installed here (PLANISH_COMPUTE_SANITIZER names another place)");
    return;
  }
  if (!on_device().has_value()) {
    reply.memory = not_run("the device was not free in time");
    return;
  }
  // What is held for the proof is not needed any more, and each tool's process needs the task's memory for itself.
  device_->runners.discard(worker::Runner::Kind::native);
  const auto run = [&, left = work_seconds_left()](const char* tool, std::string path) {
    const WorkScope scope(std::isfinite(left) ? std::max(left, 1e-3) : 0);
    const worker::MemoryJob job{tool, request_.task, std::move(path), 2, device_->memory_limit};
    return worker::check_memory(tools_, job, work_seconds(limits_.memory_check));
  };
  report_work("looking at its memory accesses with compute-sanitizer");
  const double bytes = static_cast<double>(reply_.input_bytes) + 4 * static_cast<double>(reply_.parameters);
  const bool small = bytes < small_share * static_cast<double>(device_->facts.memory_bytes);
  std::vector<std::future<worker::MemoryCheck>> running;
  for (const char* tool : worker::memory_tools)
    running.push_back(std::async(small ? std::launch::async : std::launch::deferred, run, tool, request.path));
  std::vector<worker::MemoryCheck> checks;
  for (auto& one : running) {
    worker::MemoryCheck check = one.get();
    // Only then is it asked what the tool says of PyTorch's own kernels.
    if (check.result == worker::MemoryCheck::Result::found)
      check = worker::beside_reference(std::move(check), run(check.tool.c_str(), ""));
    checks.push_back(std::move(check));
  }
  add_memory_checks(std::move(checks), reply);
}

}  // namespace planish
