#pragma once

#include <string>
#include <vector>

/// The kernel's Landlock: which files a process may reach from now on. Raw system calls; nothing to link with.
namespace planish::runner {

struct FileRules {
  std::vector<std::string> read;   ///< files and folders to read and to load code from
  std::vector<std::string> write;  ///< folders to write below, devices to write to; also readable
  bool run_written = false;        ///< programs there may be started
  bool tcp = false;                ///< `isolate` leaves TCP alone: its network is its own
};

/// The kernel's, 0 where it has none.
int landlock_version();
/// Forbids every other file access; with `isolate` also TCP, signals and abstract sockets to processes outside, as far
/// as the kernel can. Paths that do not exist are left out. Returns the Landlock version in force, 0 when the kernel
/// has none or refuses. Needs PR_SET_NO_NEW_PRIVS; holds for the calling thread and those it starts.
int restrict_files(const FileRules& rules, bool isolate);

}  // namespace planish::runner
