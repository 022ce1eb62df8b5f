#include "guest_place.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "guest_tmp.h"
#include "landlock.h"
#include "limits.h"
#include "mount.h"
#include "syscalls.h"

namespace planish::runner {
namespace {

constexpr std::uint64_t most_file_bytes = std::uint64_t{16} << 30U;
constexpr rlim_t most_processes = 8192;

bool set_read_only(const char* path, bool on, bool recursive) {
  return set_mount(AT_FDCWD, path, on ? mount_read_only : 0, on ? 0 : mount_read_only, recursive);
}

bool bind_to_itself(const std::string& folder) {
  return mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

/// Everything read-only, as a second wall behind Landlock and, unlike it, against changes of modes and times as well.
bool make_read_only(const GuestRules& rules) {
  bool ok = bind_to_itself(rules.scratch);
  for (const std::string& folder : rules.writable) ok = ok && bind_to_itself(folder);
  ok = ok && set_read_only("/", true, true) && set_read_only(rules.scratch.c_str(), false, true);
  for (const std::string& folder : rules.writable) ok = ok && set_read_only(folder.c_str(), false, true);
  return ok;
}

/// What of /proc belongs to the whole machine stays read-only where the rest may be written, as container runtimes have
/// it.
bool keep_kernel_files() {
  bool ok = true;
  for (const char* path : {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi"}) {
    std::error_code failed;
    if (std::filesystem::exists(path, failed)) ok = ok && bind_to_itself(path) && set_read_only(path, true, true);
  }
  return ok;
}

void drop_all_capabilities(GuestFacts* facts) {
  for (int capability = 0; capability <= 63; ++capability) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  // Otherwise exec would give user 0 of the namespace all of them back.
  prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  facts->no_capabilities = syscall(SYS_capset, &header, none) == 0;
}

std::vector<std::string> device_files(bool cuda) {
  std::vector<std::string> files{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
  if (!cuda) return files;
  files.insert(files.end(), {"/dev/dxg", "/dev/dri", "/dev/nvidia-caps"});
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/dev", failed), end; !failed && at != end; at.increment(failed)) {
    if (at->path().filename().string().starts_with("nvidia")) files.push_back(at->path().string());
  }
  return files;
}

/// A new network has this one interface, which is down.
bool raise_loopback() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool up = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  return up;
}

}  // namespace

int fork_into_namespaces(GuestFacts* facts) {
  constexpr unsigned long all = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS;
  // Root may make the others where user namespaces are off; some containers allow only a part.
  for (const unsigned long flags : {all, all & ~static_cast<unsigned long>(CLONE_NEWUSER),
                                    static_cast<unsigned long>(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET),
                                    static_cast<unsigned long>(CLONE_NEWUSER | CLONE_NEWNET), 0UL}) {
    facts->user_namespace = (flags & CLONE_NEWUSER) != 0;
    facts->pid_namespace = (flags & CLONE_NEWPID) != 0;
    facts->network_namespace = (flags & CLONE_NEWNET) != 0;
    facts->mount_namespace = (flags & CLONE_NEWNS) != 0;
    const long child = syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child >= 0) return static_cast<int>(child);
  }
  return -1;
}

void furnish(const GuestRules& rules, GuestFacts* facts) {
  facts->loopback = rules.loopback && facts->network_namespace && raise_loopback();
  if (!facts->mount_namespace) return;
  // Nothing that is mounted here may be seen outside.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  if (facts->pid_namespace)
    facts->private_proc = mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  facts->read_only_mounts = make_read_only(rules);
  // What is still read below the real /tmp lies in the guest's own then: read-only mounts alone keep it.
  facts->private_tmp = rules.own_tmp && facts->pid_namespace && facts->read_only_mounts && can_own_tmp(rules.scratch);
  // The driver names its threads through /proc. What else of it could be written is Landlock's to refuse.
  if (rules.cuda && landlock_version() > 0) set_read_only("/proc", false, false);
  facts->own_proc_writable = rules.cuda && facts->private_proc && keep_kernel_files();
  // Shared memory of its own, which ends with it.
  mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=25%,mode=1777");
}

void lock_in(const GuestRules& rules, GuestFacts* facts) {
  const auto cap = [](int resource, rlim_t most) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return;
    limit.rlim_max = limit.rlim_max == RLIM_INFINITY ? most : std::min(limit.rlim_max, most);
    limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
    setrlimit(static_cast<__rlimit_resource>(resource), &limit);
  };
  cap(RLIMIT_CORE, 0);
  cap(RLIMIT_FSIZE, most_file_bytes);
  // Outside a user namespace these are counted together with everything else this user runs.
  if (facts->user_namespace) cap(RLIMIT_NPROC, most_processes);
  facts->no_new_privileges = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (facts->no_new_privileges) {
    FileRules files;
    files.read = rules.readable.empty() ? std::vector<std::string>{"/"} : rules.readable;
    files.write = device_files(rules.cuda);
    files.write.push_back(rules.scratch);
    if (facts->private_tmp) files.write.push_back(rules.scratch + "/tmp");  // as /tmp it does not lie in scratch
    files.write.insert(files.write.end(), rules.writable.begin(), rules.writable.end());
    // Where it is not the guest's own, it would be a place to leave things for others.
    if (facts->mount_namespace) files.write.emplace_back("/dev/shm");
    // Processes that the guest starts are not below its own /proc/self: compilers' workers open the driver, too. A
    // private /proc shows nobody else's.
    if (rules.cuda) files.write.emplace_back(facts->own_proc_writable ? "/proc" : "/proc/self");
    files.run_written = true;
    files.tcp = facts->loopback;
    facts->landlock = restrict_files(files, true);
  }
  drop_all_capabilities(facts);
  if (!facts->no_new_privileges) return;
  facts->seccomp = restrict_guest_tools({.keep_group = !facts->pid_namespace,
                                         .driver = rules.cuda,
                                         .loopback = facts->loopback,
                                         .keep_attributes = !facts->read_only_mounts});
}

}  // namespace planish::runner
