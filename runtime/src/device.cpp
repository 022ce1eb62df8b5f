#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "driver.h"
#include "result.h"

namespace planish::rt {
namespace {

template <std::size_t n>
void put(char (&to)[n], const std::string& from) {
  std::snprintf(to, n, "%s", from.c_str());
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const auto colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "CPU";
}

void cpu_info(prt_device_info* out) {
  put(out->name, cpu_name());
  cpu_set_t set;
  CPU_ZERO(&set);
  out->sms = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  out->l2_bytes = std::max({sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), 0L});
  out->memory_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

std::string uuid_text(const cu::Uuid& uuid) {
  std::string out = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += hex;
  }
  return out;
}

Status gpu_info(int ordinal, prt_device_info* out) {
  PRT_TRY(const cu::Driver* d, cu::driver());
  PRT_TRY(const cu::Gpu* gpu, cu::gpu(ordinal));
  const auto attribute = [&](int id) {
    int value = 0;
    d->device_get_attribute(&value, id, gpu->device);
    return value;
  };
  PRT_CHECK(cu::check(d->device_get_name(out->name, sizeof out->name, gpu->device), "cuDeviceGetName", "no_device"));
  const int major = attribute(cu::device_major);
  // From 9.0 on, the features that matter (wgmma, TMA multicast) exist only in the architecture-specific target.
  put(out->arch, "sm_" + std::to_string(major) + std::to_string(attribute(cu::device_minor)) + (major >= 9 ? "a" : ""));
  cu::Uuid uuid{};
  PRT_CHECK(cu::check(d->device_get_uuid(&uuid, gpu->device), "cuDeviceGetUuid", "no_device"));
  put(out->uuid, uuid_text(uuid));
  out->sms = attribute(cu::device_sms);
  out->l2_bytes = attribute(cu::device_l2_bytes);
  out->shared_bytes_optin = attribute(cu::device_shared_optin);
  std::size_t memory = 0;
  PRT_CHECK(cu::check(d->device_total_mem(&memory, gpu->device), "cuDeviceTotalMem", "no_device"));
  out->memory_bytes = static_cast<std::int64_t>(memory);
  int version = 0;
  d->driver_get_version(&version);
  out->driver_version = version;
  return {};
}

Status synchronize(int device) {
  if (device < 0) return {};
  PRT_TRY(const cu::Driver* d, cu::driver());
  PRT_TRY(const cu::Gpu* gpu, cu::gpu(device));
  const cu::Current current(*d, *gpu);
  PRT_CHECK(current.status());
  return cu::check(d->ctx_synchronize(), "cuCtxSynchronize", "launch_failed");
}

}  // namespace
}  // namespace planish::rt

extern "C" {

int prt_abi_version(void) {
  return PRT_ABI_VERSION;
}

int prt_device_count(int* cuda_devices, prt_error* error) {
  return planish::rt::boundary(error, [&]() -> planish::rt::Status {
    if (cuda_devices == nullptr) return planish::rt::fail("bad_argument", "cuda_devices is null");
    *cuda_devices = 0;
    const auto driver = planish::rt::cu::driver();
    if (!driver) return {};  // no driver is no device, not an error
    if ((*driver)->device_get_count(cuda_devices) != planish::rt::cu::success) *cuda_devices = 0;
    return {};
  });
}

int prt_device_info_get(int device, prt_device_info* out, prt_error* error) {
  return planish::rt::boundary(error, [&]() -> planish::rt::Status {
    if (out == nullptr) return planish::rt::fail("bad_argument", "out is null");
    std::memset(out, 0, sizeof *out);
    if (device >= 0) return planish::rt::gpu_info(device, out);
    planish::rt::cpu_info(out);
    return {};
  });
}

int prt_synchronize(int device, prt_error* error) {
  return planish::rt::boundary(error, [&] { return planish::rt::synchronize(device); });
}

}  // extern "C"
