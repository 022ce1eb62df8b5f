#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

/// The processes that a guest consists of, seen from outside it.
namespace planish::runner {

/// `root` and all that descend from it, as /proc lists them. Orphans count as long as an ancestor reaps them.
std::vector<pid_t> family_of(pid_t root);
/// Resident bytes of these processes together; what they share counts for each.
std::uint64_t resident_bytes_of(const std::vector<pid_t>& processes);
/// Bytes of files in memory that these processes hold open and no file system has (memfd_create): they are resident
/// nowhere where nobody maps them.
std::uint64_t memory_file_bytes_of(const std::vector<pid_t>& processes);
/// Bytes on the disk below a folder; no link is followed, and what lies very deep is left out.
std::uint64_t disk_bytes_below(const char* folder);
/// Kills everything that descends from this process, until nothing does. Needs PR_SET_CHILD_SUBREAPER for orphans.
void kill_descendants();

}  // namespace planish::runner
