#include "sandbox.h"

#include <dlfcn.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "landlock.h"
#include "planish_rt.h"
#include "syscalls.h"

namespace planish::runner {
namespace {

/// Also those that a user namespace gave. Only worth something together with no_new_privs.
bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  return syscall(SYS_capset, &header, none) == 0;
}

void add_library_folders(std::vector<std::string>* out) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&prt_program_load), &info) != 0 && info.dli_fname != nullptr) {
    std::error_code ignored;
    out->push_back(std::filesystem::canonical(info.dli_fname, ignored).parent_path().string());
  }
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.starts_with('/')) out->push_back(folder);
  }
}

FileRules guest_files(const SandboxOptions& options) {
  FileRules rules;
  rules.read = {"/usr",
                "/lib",
                "/lib32",
                "/lib64",
                "/etc/ld.so.cache",
                "/etc/ld.so.preload",
                "/proc/self",
                "/proc/cpuinfo",
                "/proc/meminfo",
                "/sys/devices/system",
                "/dev/zero",
                "/dev/urandom"};
  rules.read.insert(rules.read.end(), options.readable.begin(), options.readable.end());
  add_library_folders(&rules.read);
  rules.write = {"/dev/null"};
  return rules;
}

}  // namespace

nlohmann::json enter_sandbox(const SandboxOptions& options) {
  // Descriptors that leaked into this process are doors that no rule below closes.
  const int leaked_from = 4;
  syscall(SYS_close_range, leaked_from, ~0U, 0);
  std::error_code ignored;
  for (const std::string& folder : options.readable) std::filesystem::create_directories(folder, ignored);

  const bool sealed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  // The driver is found in many places and reads from more; none of its code is a guest's.
  FileRules files = options.cuda ? FileRules{{"/"}, {"/dev"}} : guest_files(options);
  if (!options.scratch.empty()) files.write.push_back(options.scratch);
  const bool uncapable = !options.cuda && drop_capabilities();
  const int landlock = sealed ? restrict_files(files, !options.cuda) : 0;
  // Last: the calls above are among those it refuses. Without Landlock nothing else would say where to write.
  const SyscallRules calls = options.cuda                               ? SyscallRules::driver
                             : landlock > 0 && !options.scratch.empty() ? SyscallRules::guest_writes
                                                                        : SyscallRules::guest;
  const bool filtered = sealed && restrict_syscalls(calls);
  return {{"landlock", landlock},
          {"seccomp", !filtered      ? "none"
                      : options.cuda ? "driver"
                                     : "guest"},
          {"no_new_privileges", sealed},
          {"no_capabilities", uncapable}};
}

}  // namespace planish::runner
