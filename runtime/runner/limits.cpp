#include "limits.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "fault.h"

namespace planish::runner {
namespace {

std::atomic<std::int64_t> exempt{0};

/// As the process was started: inside a fresh user namespace both read as nobody.
const struct {
  uid_t uid = getuid();
  gid_t gid = getgid();
} outside_identity;

bool write_text(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = write(fd, text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text));
  close(fd);
  return ok;
}

/// -1 when it cannot be read.
std::int64_t resident_bytes(int statm) {
  char text[128];
  const ssize_t n = pread(statm, text, sizeof text - 1, 0);
  if (n <= 0) return -1;
  text[n] = '\0';
  const char* second = std::strchr(text, ' ');
  return second == nullptr ? -1 : std::strtoll(second, nullptr, 10) * sysconf(_SC_PAGESIZE);
}

}  // namespace

void keep_identity() {
  const auto [uid, gid] = outside_identity;
  char map[64];
  write_text("/proc/self/setgroups", "deny");
  std::snprintf(map, sizeof map, "%u %u 1", uid, uid);
  write_text("/proc/self/uid_map", map);
  std::snprintf(map, sizeof map, "%u %u 1", gid, gid);
  write_text("/proc/self/gid_map", map);
}

bool leave_network() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  keep_identity();
  return true;
}

bool die_with_parent() {
  return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

void exempt_bytes(std::int64_t delta) {
  exempt += delta;
}

bool watch_memory(std::uint64_t limit) {
  const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (statm < 0) return false;
  try {
    std::thread([statm, limit] {
      for (;;) {
        if (resident_bytes(statm) - exempt.load() > static_cast<std::int64_t>(limit))
          die_of_fault(SIGKILL, 0, "memory");
        usleep(5000);
      }
    }).detach();
  } catch (const std::system_error&) {
    close(statm);
    return false;
  }
  return true;
}

}  // namespace planish::runner
