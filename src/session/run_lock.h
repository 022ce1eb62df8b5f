#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "base/file.h"

/// Whether the command that works on a run is still there. A killed command cannot write that it ended: the lock that
/// it held says so.
namespace planish::session {

/// Held by the one command that works on a run, for as long as it does. Its file goes with it.
class RunLock {
 public:
  RunLock(FileLock lock, std::filesystem::path file) : lock_(std::move(lock)), file_(std::move(file)) {}
  RunLock(RunLock&& other) noexcept : lock_(std::move(other.lock_)), file_(std::exchange(other.file_, {})) {}
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

 private:
  FileLock lock_;
  std::filesystem::path file_;  ///< empty where it was moved from
};

/// Error kind `busy` where another command works on the run.
Result<RunLock> lock_run(const std::string& run);
/// The state to show: `killed` for a run that is stored as `running` and whose lock nobody holds.
std::string live_state(const std::string& run, const std::string& stored_state);
/// Removes the lock files of this user's commands that were killed. Returns how many.
int remove_dead_run_locks();

}  // namespace planish::session
