#include "guest_watch.h"

#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

namespace planish::runner {
namespace {

constexpr std::uint64_t block_bytes = 512;  // what st_blocks counts in, everywhere
constexpr int deepest_looked_at = 64;

void add_children(pid_t process, std::vector<pid_t>* out) {
  namespace fs = std::filesystem;
  std::error_code failed;
  // A child belongs to the thread that made it.
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (fs::directory_iterator at(tasks, failed), end; !failed && at != end; at.increment(failed)) {
    std::ifstream children(at->path() / "children");
    for (pid_t child = 0; children >> child;) out->push_back(child);
  }
}

}  // namespace

std::vector<pid_t> family_of(pid_t root) {
  std::vector<pid_t> family{root};
  for (std::size_t i = 0; i < family.size(); ++i) add_children(family[i], &family);
  return family;
}

std::uint64_t resident_bytes_of(const std::vector<pid_t>& processes) {
  std::uint64_t pages = 0;
  for (const pid_t process : processes) {
    std::ifstream statm("/proc/" + std::to_string(process) + "/statm");
    std::uint64_t total = 0, resident = 0;
    if (statm >> total >> resident) pages += resident;
  }
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t memory_file_bytes_of(const std::vector<pid_t>& processes) {
  namespace fs = std::filesystem;
  std::uint64_t bytes = 0;
  std::set<ino_t> seen;  // all of them lie on one device
  for (const pid_t process : processes) {
    std::error_code failed;
    const std::string descriptors = "/proc/" + std::to_string(process) + "/fd";
    for (fs::directory_iterator at(descriptors, failed), end; !failed && at != end; at.increment(failed)) {
      std::error_code gone;
      struct stat info{};
      if (!fs::read_symlink(at->path(), gone).string().starts_with("/memfd:")) continue;
      if (stat(at->path().c_str(), &info) == 0 && seen.insert(info.st_ino).second)
        bytes += static_cast<std::uint64_t>(info.st_blocks) * block_bytes;
    }
  }
  return bytes;
}

std::uint64_t disk_bytes_below(const char* folder) {
  static thread_local std::uint64_t bytes;
  bytes = 0;
  const auto count = [](const char*, const struct stat* info, int, struct FTW* at) -> int {
    bytes += static_cast<std::uint64_t>(info->st_blocks) * block_bytes;
    return at->level < deepest_looked_at ? FTW_CONTINUE : FTW_SKIP_SUBTREE;
  };
  constexpr int descriptors = 32;
  nftw(folder, count, descriptors, FTW_PHYS | FTW_MOUNT | FTW_ACTIONRETVAL);
  return bytes;
}

void kill_descendants() {
  // Each round may uncover children of what it killed; one that forks faster than it is killed meets its process limit.
  for (int round = 0; round < 1000; ++round) {
    std::vector<pid_t> family = family_of(getpid());
    if (family.size() <= 1) return;
    for (std::size_t i = 1; i < family.size(); ++i) kill(family[i], SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    usleep(500);
  }
}

}  // namespace planish::runner
