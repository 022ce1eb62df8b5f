#include "evaluate/nvml.h"

#include <dlfcn.h>

namespace planish {

struct Nvml::Api {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*max_clock)(void*, int, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*bus_width)(void*, unsigned*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  int (*uuid)(void*, char*, unsigned) = nullptr;
};

namespace {
constexpr int sm_clock = 1, memory_clock = 2;

template <typename F>
bool symbol(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}
}  // namespace

Nvml::Nvml() {
  auto api = std::make_unique<Api>();
  api->library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (api->library == nullptr) return;
  const bool complete = symbol(api->library, "nvmlInit_v2", api->init) &&
                        symbol(api->library, "nvmlShutdown", api->shutdown) &&
                        symbol(api->library, "nvmlDeviceGetHandleByUUID", api->by_uuid) &&
                        symbol(api->library, "nvmlDeviceGetClockInfo", api->clock) &&
                        symbol(api->library, "nvmlDeviceGetMaxClockInfo", api->max_clock) &&
                        symbol(api->library, "nvmlDeviceGetTemperature", api->temperature) &&
                        symbol(api->library, "nvmlDeviceGetMemoryBusWidth", api->bus_width) &&
                        symbol(api->library, "nvmlDeviceGetCount_v2", api->count) &&
                        symbol(api->library, "nvmlDeviceGetHandleByIndex_v2", api->by_index) &&
                        symbol(api->library, "nvmlDeviceGetUUID", api->uuid);
  if (!complete || api->init() != 0) {
    ::dlclose(api->library);
    return;
  }
  api_ = std::move(api);
}

Nvml::~Nvml() {
  if (api_) api_->shutdown();
}

void* Nvml::device(const std::string& uuid) const {
  if (!api_) return nullptr;
  void* handle = nullptr;
  const std::string name = uuid.starts_with("GPU-") || uuid.starts_with("MIG-") ? uuid : "GPU-" + uuid;
  return api_->by_uuid(name.c_str(), &handle) == 0 ? handle : nullptr;
}

Clocks Nvml::clocks(const std::string& uuid) const {
  Clocks clocks;
  void* handle = device(uuid);
  if (handle == nullptr) return clocks;
  unsigned value = 0;
  if (api_->clock(handle, sm_clock, &value) == 0) clocks.sm_mhz = static_cast<int>(value);
  if (api_->clock(handle, memory_clock, &value) == 0) clocks.mem_mhz = static_cast<int>(value);
  if (api_->temperature(handle, 0, &value) == 0) clocks.temperature_c = static_cast<int>(value);
  return clocks;
}

double Nvml::nominal_bandwidth_gbs(const std::string& uuid) const {
  void* handle = device(uuid);
  unsigned mhz = 0, bits = 0;
  if (handle == nullptr || api_->max_clock(handle, memory_clock, &mhz) != 0 || api_->bus_width(handle, &bits) != 0)
    return 0;
  return 2.0 * mhz * 1e6 * bits / 8 / 1e9;
}

std::vector<std::string> Nvml::uuids() const {
  std::vector<std::string> out;
  unsigned n = 0;
  if (!api_ || api_->count(&n) != 0) return out;
  for (unsigned i = 0; i < n; ++i) {
    void* handle = nullptr;
    char text[96] = {};
    if (api_->by_index(i, &handle) == 0 && api_->uuid(handle, text, sizeof text) == 0) out.emplace_back(text);
  }
  return out;
}

int Nvml::max_sm_mhz(const std::string& uuid) const {
  void* handle = device(uuid);
  unsigned mhz = 0;
  if (handle == nullptr || api_->max_clock(handle, sm_clock, &mhz) != 0) return 0;
  return static_cast<int>(mhz);
}

}  // namespace planish
