#include "landlock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace planish::runner {
namespace {

// The numbers of the kernel's interface, written out: build machines have older headers than the kernels we run on.
constexpr long sys_create_ruleset = 444, sys_add_rule = 445, sys_restrict_self = 446;
constexpr unsigned flag_version = 1;
constexpr int rule_path_beneath = 1;

constexpr std::uint64_t execute = 1U << 0U, write_file = 1U << 1U, read_file = 1U << 2U, read_dir = 1U << 3U;
constexpr std::uint64_t refer = 1U << 13U, truncate = 1U << 14U, ioctl_device = 1U << 15U;
constexpr std::uint64_t of_first_version = (1U << 13U) - 1;
/// A rule for a file, rather than for a folder, may name these only.
constexpr std::uint64_t of_files = execute | write_file | read_file | truncate | ioctl_device;
constexpr std::uint64_t tcp = 3, abstract_sockets_and_signals = 3;

struct Ruleset {
  std::uint64_t files, network, scoped;
};
struct __attribute__((packed)) PathRule {
  std::uint64_t allowed;
  std::int32_t parent;
};

/// False when the path exists and the rule could not be made.
bool allow(int ruleset, const std::string& path, std::uint64_t access) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return true;
  struct stat info{};
  bool ok = fstat(fd, &info) == 0;
  if (ok) {
    const PathRule rule{S_ISDIR(info.st_mode) ? access : access & of_files, fd};
    ok = syscall(sys_add_rule, ruleset, rule_path_beneath, &rule, 0) == 0;
  }
  close(fd);
  return ok;
}

}  // namespace

int landlock_version() {
  const long version = syscall(sys_create_ruleset, nullptr, 0, flag_version);
  return version < 1 ? 0 : static_cast<int>(std::min(version, 1000L));
}

int restrict_files(const FileRules& rules, bool isolate) {
  const int version = landlock_version();
  if (version < 1) return 0;
  std::uint64_t handled = of_first_version;
  if (version >= 2) handled |= refer;
  if (version >= 3) handled |= truncate;
  if (version >= 5) handled |= ioctl_device;
  const Ruleset all{handled, version >= 4 && isolate && !rules.tcp ? tcp : 0,
                    version >= 6 && isolate ? abstract_sockets_and_signals : 0};
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(syscall(sys_create_ruleset, &all, size, 0));
  if (ruleset < 0) return 0;
  bool ok = true;
  for (const std::string& path : rules.read) ok = ok && allow(ruleset, path, execute | read_file | read_dir);
  // Not execute, unless asked for: what is written here must not become code.
  const std::uint64_t written = rules.run_written ? handled : handled & ~execute;
  for (const std::string& path : rules.write) ok = ok && allow(ruleset, path, written);
  ok = ok && syscall(sys_restrict_self, ruleset, 0) == 0;
  close(ruleset);
  return ok ? version : 0;
}

}  // namespace planish::runner
