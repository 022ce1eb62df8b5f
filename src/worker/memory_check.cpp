#include "worker/memory_check.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/owned_folder.h"
#include "base/subprocess.h"
#include "worker/printable.h"

namespace planish::worker {
namespace fs = std::filesystem;
namespace {

constexpr double most_again = 60;  ///< seconds of a second try

/// A mark that the guest's own lines do not begin with.
std::string fresh_mark() {
  std::uint64_t random = 0;
  (void)!::getrandom(&random, sizeof random, 0);
  return fmt::format("=={:016x}", random);
}

}  // namespace

MemoryCheck check_memory(const Toolbox& tools, const MemoryJob& job, double limit_seconds, const CancelToken* cancel) {
  MemoryCheck check;
  check.tool = job.tool;
  const TimePoint start = real_clock().now();
  const auto not_run = [&](std::string why) {
    check.reason = std::move(why);
    check.seconds = seconds_since(start);
    return check;
  };
  auto scratch = OwnedFolder::create(guest_folder_prefix);
  if (!scratch) return not_run(scratch.error().message);
  const std::string mark = fresh_mark();
  GuestSettings guest{scratch->path(), "cuda", job.max_rss};
  guest.loopback = guest.own_tmp = true;
  // Both may be relative to this folder, which is not the module's.
  const std::string task = fs::absolute(job.task), path = job.path.empty() ? "" : fs::absolute(job.path).string();
  // Each tensor an allocation of its own, or what lies beside it in one of PyTorch's blocks would count as allocated,
  // and what another tensor left there as written.
  guest.before = {tools.python.string(), "-m", "planish.runner.own_tmp", task};
  if (!path.empty()) guest.before.push_back(path);
  guest.before.insert(
      guest.before.end(),
      {"--", "/usr/bin/env", "NV_COMPUTE_SANITIZER_LOCAL_CONNECTION_OVERRIDE=tcp", "PYTORCH_NO_CUDA_MEMORY_CACHING=1",
       tools.compute_sanitizer.string(), "--tool", job.tool, "--prefix", mark, "--target-processes", "application-only",
       "--demangle", "simple", "--show-backtrace", "device", "--print-limit", "20"});
  if (job.tool == "memcheck")
    guest.before.insert(guest.before.end(), {"--report-api-errors", "no", "--padding", "512"});
  if (job.tool == "racecheck") guest.before.insert(guest.before.end(), {"--racecheck-detect-level", "error"});
  std::vector<std::string> arguments{"--task", task, "--calls", fmt::format("{}", job.calls)};
  if (!path.empty()) arguments.insert(arguments.end(), {"--path", path});
  const auto run = [&](double limit) {
    SpawnOptions options = tools.guest_module("planish.runner.few_calls", arguments, guest);
    options.whole_output = true;
    return run_command(std::move(options), limit, cancel);
  };
  auto done = run(limit_seconds);
  // Now and then a tool hangs that ends in some seconds when it is asked again.
  const double again = std::min(limit_seconds, most_again);
  const bool hung = !done && done.error().kind == "timeout";
  // A kernel with an error in each of a million threads may not end under a tool that has described some of them.
  const auto described = [&]() -> bool {
    if (done || done.error().kind != "timeout" || done.error().causes.empty()) return false;
    check = read_memory_report(job.tool, done.error().causes.back(), mark);
    check.seconds = seconds_since(start);
    return check.result == MemoryCheck::Result::found;
  };
  if (described()) return check;
  if (hung) done = run(again);
  if (described()) return check;
  if (!done) {
    return not_run(done.error().kind == "timeout" && hung
                       ? fmt::format("it did not end within {:g} s, nor within {:g} s when it was asked again",
                                     limit_seconds, again)
                       : done.error().message);
  }
  check = read_memory_report(job.tool, done->output, mark);
  check.seconds = seconds_since(start);
  if (check.result != MemoryCheck::Result::not_run) return check;
  // What the module itself printed before it ended says more than that it ended.
  const std::string_view failure = "few_calls: ";
  if (const std::size_t at = done->output.rfind(failure); at != std::string::npos) {
    const std::size_t end = std::min(done->output.find('\n', at), done->output.size());
    check.reason += ": " + printable(std::string_view(done->output).substr(at, end - at).substr(failure.size()));
  }
  return check;
}

}  // namespace planish::worker
