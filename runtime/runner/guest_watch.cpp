#include "guest_watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace planish::runner {
namespace {

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
