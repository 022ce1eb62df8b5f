#include "session/run_lock.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <system_error>

namespace planish::session {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view lock_prefix = "planish-run-", lock_suffix = ".lock";

fs::path lock_file(const std::string& run) {
  return runtime_dir() / fmt::format("{}{}{}", lock_prefix, run, lock_suffix);
}

bool is_ours(const fs::path& file) {
  struct stat info{};
  return ::lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid();
}

/// Nobody holds it: then it goes.
bool remove_if_dead(const fs::path& file) {
  auto lock = FileLock::try_acquire(file);
  if (!lock) return false;
  const RunLock held(std::move(*lock), file);
  return true;
}

}  // namespace

RunLock::~RunLock() {
  // While it is locked: who opened it meanwhile finds that it is gone, and makes another.
  std::error_code ignored;
  if (!file_.empty()) fs::remove(file_, ignored);
}

Result<RunLock> lock_run(const std::string& run) {
  const fs::path file = lock_file(run);
  // Who only asks whether the run is alive holds the lock for a moment.
  auto lock = FileLock::acquire(file, 0.2);
  if (lock) return RunLock(std::move(*lock), file);
  if (lock.error().kind == "timeout")
    return fail("busy", fmt::format("another command is working on run {}", run), "wait until it has ended");
  return std::unexpected(std::move(lock.error()));
}

std::string live_state(const std::string& run, const std::string& stored_state) {
  if (stored_state != "running") return stored_state;
  std::error_code ignored;
  if (!fs::exists(lock_file(run), ignored)) return "killed";
  return remove_if_dead(lock_file(run)) ? "killed" : stored_state;
}

int remove_dead_run_locks() {
  int removed = 0;
  std::error_code failed;
  for (fs::directory_iterator at(runtime_dir(), failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(lock_prefix) || !name.ends_with(lock_suffix) || !is_ours(at->path())) continue;
    if (remove_if_dead(at->path())) ++removed;
  }
  return removed;
}

}  // namespace planish::session
