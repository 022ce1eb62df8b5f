#include "cli/run_lock.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace planish::cli {
namespace {

std::filesystem::path lock_file(const std::string& run) {
  return runtime_dir() / fmt::format("planish-run-{}.lock", run);
}

}  // namespace

Result<FileLock> lock_run(const std::string& run) {
  auto lock = FileLock::try_acquire(lock_file(run));
  if (!lock && lock.error().kind == "busy") {
    return fail("busy", fmt::format("another command is working on run {}", run), "wait until it has ended");
  }
  return lock;
}

std::string live_state(const std::string& run, const std::string& stored_state) {
  if (stored_state != "running") return stored_state;
  std::error_code ignored;
  if (!std::filesystem::exists(lock_file(run), ignored)) return "killed";  // asking may not leave a file behind
  return FileLock::try_acquire(lock_file(run)).has_value() ? "killed" : stored_state;
}

}  // namespace planish::cli
