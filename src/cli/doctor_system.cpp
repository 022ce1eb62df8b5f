#include "cli/doctor_system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <system_error>

#include "backend/backend.h"
#include "base/file.h"

namespace planish::cli {
namespace fs = std::filesystem;
namespace {

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

template <typename Function>
Function symbol(const Library& library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library.get(), name));
}

/// "13000" as the driver and NVRTC count versions is 13.0.
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

Check driver_version() {
  Check check{"driver", false, Check::Need::target, "", "", backend::cuda().name};
  const Library nvml(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (!nvml) {
    check.found = "libnvidia-ml.so.1 was not found";
    check.advice = "for the target cuda install the NVIDIA driver (580 or newer)";
    return check;
  }
  const auto init = symbol<int (*)()>(nvml, "nvmlInit_v2");
  const auto read = symbol<int (*)(char*, unsigned)>(nvml, "nvmlSystemGetDriverVersion");
  const auto end = symbol<int (*)()>(nvml, "nvmlShutdown");
  char text[96] = "";
  if (init == nullptr || read == nullptr || end == nullptr || init() != 0) {
    check.found = "NVML is installed but does not start";
    check.advice = "check that nvidia-smi works";
    return check;
  }
  check.ok = read(text, sizeof text) == 0;
  check.found = fmt::format("NVIDIA driver {}", text);
  end();
  return check;
}

Check devices() {
  Check check{"gpu",
              false,
              Check::Need::target,
              "",
              "the target cuda needs an NVIDIA GPU; the target cpu works without",
              backend::cuda().name};
  const Library cuda(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  if (!cuda) {
    check.found = "libcuda.so.1 was not found";
    return check;
  }
  const auto init = symbol<int (*)(unsigned)>(cuda, "cuInit");
  const auto version = symbol<int (*)(int*)>(cuda, "cuDriverGetVersion");
  const auto count = symbol<int (*)(int*)>(cuda, "cuDeviceGetCount");
  const auto name = symbol<int (*)(char*, int, int)>(cuda, "cuDeviceGetName");
  const auto attribute = symbol<int (*)(int*, int, int)>(cuda, "cuDeviceGetAttribute");
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr || attribute == nullptr) {
    check.found = "libcuda.so.1 lacks functions that are needed";
    return check;
  }
  if (const int code = init(0); code != 0) {
    check.found = fmt::format("libcuda.so.1 is there, but cuInit gives {}", code);
    check.advice = "check that nvidia-smi works and that this user may open /dev/nvidia*";
    return check;
  }
  int number = 0, cuda_number = 0;
  version(&cuda_number);
  if (count(&number) != 0 || number == 0) {
    check.found = fmt::format("CUDA {} and no device", cuda_version(cuda_number));
    return check;
  }
  std::vector<std::string> names;
  for (int device = 0; device < number; ++device) {
    char text[128] = "";
    int major = 0, minor = 0;
    name(text, sizeof text, device);
    attribute(&major, 75, device);  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    attribute(&minor, 76, device);
    names.push_back(fmt::format("{} (sm_{}{})", text, major, minor));
  }
  check.ok = true;
  check.advice.clear();
  check.found = fmt::format("{}, CUDA {}", fmt::join(names, ", "), cuda_version(cuda_number));
  return check;
}

}  // namespace

std::vector<Check> check_gpu() {
  return {devices(), driver_version()};
}

Check check_nvrtc(const std::vector<fs::path>& site_packages) {
  Check check{"nvrtc",
              false,
              Check::Need::target,
              "not found",
              "pip install nvidia-cuda-nvrtc (or install the CUDA toolkit, or set CUDA_HOME)",
              backend::cuda().name};
  std::vector<fs::path> candidates;
  std::error_code ignored;
  const auto look_in = [&](const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().filename().string().starts_with("libnvrtc.so")) candidates.push_back(entry.path());
    }
  };
  for (const fs::path& site : site_packages) {
    for (const auto& entry : fs::directory_iterator(site / "nvidia", ignored)) look_in(entry.path() / "lib");
  }
  look_in("/usr/local/cuda/lib64");
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) candidates.emplace_back(name);
  for (const fs::path& path : candidates) {
    const Library library(::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL));
    if (!library) continue;
    const auto nvrtc_version = symbol<int (*)(int*, int*)>(library, "nvrtcVersion");
    int major = 0, minor = 0;
    if (nvrtc_version == nullptr || nvrtc_version(&major, &minor) != 0) continue;
    check.ok = true;
    check.advice.clear();
    check.found = fmt::format("NVRTC {}.{} ({})", major, minor, path.string());
    return check;
  }
  return check;
}

Check check_user_namespaces() {
  Check check{"user_namespaces", false, Check::Need::optional, "", ""};
  // In a child: unshare would change this process for good.
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  int status = 1;
  if (child > 0) ::waitpid(child, &status, 0);
  check.ok = child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  check.found = check.ok ? "available" : "not allowed here";
  if (!check.ok)
    check.advice = "foreign code is isolated by processes alone; allow unprivileged user namespaces for more";
  return check;
}

Check check_private_tmp() {
  Check check{"private_tmp", false, Check::Need::optional, "", ""};
  const pid_t child = ::fork();
  if (child == 0) {
    // What a guest's place is made with (runtime/runner/guest_tmp.cpp).
    constexpr int places = CLONE_NEWNS | CLONE_NEWPID;
    const bool apart = ::unshare(CLONE_NEWUSER | places) == 0 || ::unshare(places) == 0;
    const bool unseen = apart && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    const bool covers = unseen && ::mount("/tmp", "/tmp", nullptr, MS_BIND | MS_REC, nullptr) == 0;
    constexpr long open_tree = 428, mount_setattr = 442;
    const long copy = covers ? ::syscall(open_tree, AT_FDCWD, "/tmp", 1UL /* a copy */) : -1;
    struct {
      std::uint64_t set = 1 /* read only */, clear = 0, propagation = 0, user_namespace = 0;
    } wanted;
    constexpr unsigned itself = 0x1000;  // AT_EMPTY_PATH
    ::_exit(copy >= 0 && ::syscall(mount_setattr, copy, "", itself, &wanted, sizeof wanted) == 0 ? 0 : 1);
  }
  int status = 1;
  if (child > 0) ::waitpid(child, &status, 0);
  check.ok = child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  check.found = check.ok ? "available" : "not allowed here";
  if (!check.ok)
    check.advice =
        "solutions of others cannot write to /tmp, only to their own folder ($TMPDIR); allow mount namespaces for more";
  return check;
}

Check check_landlock() {
  Check check{"landlock", false, Check::Need::optional, "", ""};
  constexpr unsigned ask_version = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  const long abi = ::syscall(444 /* landlock_create_ruleset */, nullptr, 0UL, ask_version);
  check.ok = abi > 0;
  check.found = check.ok ? fmt::format("ABI {}", abi) : "not in this kernel";
  if (!check.ok)
    check.advice = "foreign code is isolated by processes alone; Linux 5.13 or newer with Landlock enabled gives more";
  return check;
}

Check check_seccomp() {
  Check check{"seccomp", false, Check::Need::optional, "", ""};
  const std::uint32_t refuse = SECCOMP_RET_ERRNO;
  check.ok = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0U, &refuse) == 0;
  check.found = check.ok ? "available" : "not in this kernel";
  if (!check.ok)
    check.advice = "system calls of foreign code are not filtered; Linux 4.14 or newer with seccomp filters them";
  return check;
}

Check check_guest_user() {
  Check check{"guest_user", false, Check::Need::optional, "", ""};
  check.ok = ::geteuid() != 0;
  check.found = check.ok ? fmt::format("user {}", ::geteuid()) : "root";
  if (!check.ok)
    check.advice =
        "foreign code loses root's privileges, but may read what is root's; start planish as an ordinary user";
  return check;
}

Check check_writable(const std::string& name, const fs::path& folder, const std::string& advice) {
  Check check{name, false, Check::Need::required, folder.string(), advice};
  // Doctor leaves no folders behind, so that it asks about the nearest that exists.
  fs::path nearest = folder;
  std::error_code ignored;
  while (!fs::exists(nearest, ignored) && nearest.has_parent_path() && nearest != nearest.parent_path())
    nearest = nearest.parent_path();
  const fs::path probe = nearest / fmt::format(".planish-doctor-{}", ::getpid());
  if (auto written = write_file(probe, "x"); !written) {
    check.found = written.error().message;
    return check;
  }
  fs::remove(probe, ignored);
  check.ok = true;
  check.advice.clear();
  return check;
}

}  // namespace planish::cli
