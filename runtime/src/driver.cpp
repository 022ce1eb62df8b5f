#include "driver.h"

#include <dlfcn.h>

#include <array>
#include <mutex>

namespace planish::rt::cu {
namespace {

struct Loaded {
  Driver table;
  Failure failure;
  bool ok = false;
};

template <typename F>
bool load(void* library, const char* symbol, F*& out) {
  out = reinterpret_cast<F*>(dlsym(library, symbol));
  return out != nullptr;
}

Loaded load_driver() {
  Loaded out;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    out.failure = {"no_device", "libcuda.so.1 cannot be loaded: no NVIDIA driver is installed"};
    return out;
  }
#define PRT_LOAD(name, symbol, args)                                                                       \
  if (!load(library, symbol, out.table.name)) {                                                            \
    out.failure = {"no_device", "the NVIDIA driver is too old: it has no " symbol " (CUDA 12 is needed)"}; \
    return out;                                                                                            \
  }
  PRT_DRIVER_FUNCTIONS(PRT_LOAD)
#undef PRT_LOAD
#define PRT_LOAD(name, symbol, args) load(library, symbol, out.table.name);
  PRT_DRIVER_OPTIONAL(PRT_LOAD)
#undef PRT_LOAD
  if (const Code code = out.table.init(0); code != success) {
    const char* name = nullptr;
    out.table.get_error_name(code, &name);
    out.failure = {"no_device", std::string("cuInit failed: ") + (name != nullptr ? name : std::to_string(code))};
    return out;
  }
  out.ok = true;
  return out;
}

const Loaded& loaded() {
  static const Loaded instance = load_driver();
  return instance;
}

const char* kind_of(Code code, const char* otherwise) {
  switch (code) {
    case 2:
      return "out_of_memory";
    case 3:
    case 100:
    case 101:
    case 802:
    case 803:
    case 804:
      return "no_device";
    // Nothing that a program does: memory or links failed, or the device went away under us.
    case 46:
    case 214:
    case 220:
    case 226:
    case 911:
      return "device_lost";
    case 200:
    case 209:
    case 218:
    case 221:
    case 222:
    case 223:
    case 225:
    case 300:
    case 301:
    case 302:
    case 303:
    case 500:
      return "load_failed";
    case 700:
    case 716:
    case 717:
    case 718:
      return "illegal_address";
    case 701:
    case 702:
    case 710:
    case 714:
    case 715:
    case 719:
    case 720:
    case 912:
      return "launch_failed";
    default:
      return otherwise;
  }
}

}  // namespace

Result<const Driver*> driver() {
  const Loaded& l = loaded();
  if (!l.ok) return std::unexpected(l.failure);
  return &l.table;
}

Status check(Code code, const char* what, const char* otherwise) {
  if (code == success) return {};
  const char *name = nullptr, *text = nullptr;
  loaded().table.get_error_name(code, &name);
  loaded().table.get_error_string(code, &text);
  std::string message = std::string(what) + ": " + (name != nullptr ? name : "CUDA error " + std::to_string(code));
  if (text != nullptr) message += std::string(" (") + text + ")";
  return fail(kind_of(code, otherwise), message);
}

MemAllocationProp shareable_memory(Device device) {
  MemAllocationProp prop{};
  prop.type = allocation_pinned;
  prop.requested_handle_types = handle_posix_fd;
  prop.location = {location_device, device};
  return prop;
}

Result<const Gpu*> gpu(int ordinal) {
  static std::mutex mutex;
  static std::array<Gpu, 64> gpus;
  PRT_TRY(const Driver* d, driver());
  int count = 0;
  PRT_CHECK(check(d->device_get_count(&count), "cuDeviceGetCount", "no_device"));
  if (ordinal < 0 || ordinal >= count || ordinal >= static_cast<int>(gpus.size())) {
    return fail("no_device",
                "there is no CUDA device " + std::to_string(ordinal) + "; this process sees " + std::to_string(count));
  }
  const std::lock_guard lock(mutex);
  Gpu& slot = gpus[static_cast<std::size_t>(ordinal)];
  if (slot.context != nullptr) return &slot;
  Gpu fresh;
  fresh.ordinal = ordinal;
  PRT_CHECK(check(d->device_get(&fresh.device, ordinal), "cuDeviceGet", "no_device"));
  PRT_CHECK(check(d->primary_ctx_retain(&fresh.context, fresh.device), "cuDevicePrimaryCtxRetain", "no_device"));
  const MemAllocationProp prop = shareable_memory(fresh.device);
  if (d->mem_granularity(&fresh.granularity, &prop, granularity_minimum) != success || fresh.granularity == 0) {
    fresh.granularity = std::size_t{2} << 20;
  }
  slot = fresh;
  return &slot;
}

Current::Current(const Driver& driver, const Gpu& gpu) : driver_(driver) {
  Context current = nullptr;
  code_ = driver_.ctx_get_current(&current);
  if (code_ != success || current == gpu.context) return;
  code_ = driver_.ctx_push(gpu.context);
  pushed_ = code_ == success;
}

Current::~Current() {
  Context popped = nullptr;
  if (pushed_) driver_.ctx_pop(&popped);
}

Status Current::status() const {
  return check(code_, "cuCtxPushCurrent", "no_device");
}

}  // namespace planish::rt::cu
