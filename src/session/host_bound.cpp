#include "session/host_bound.h"

#include <algorithm>

#include "backend/backend.h"

namespace planish::session {
namespace {

constexpr const char* graphs = "max_autotune";
/// Where the device is what takes the time the host is ahead of it, and submits a call in a fraction of it.
constexpr double submitting = 0.8;
/// An idle device adds the start of one launch to any call, some microseconds.
constexpr double idle = 1.5;

}  // namespace

bool is_bound_by_host(const ClaimTime& eager) {
  if (eager.error || eager.median_ms <= 0) return false;
  return eager.host_us >= submitting * 1e3 * eager.median_ms || eager.latency_ms >= idle * eager.median_ms;
}

bool may_need_cuda_graphs(const std::vector<std::string>& modes, const DeviceFacts& device) {
  const bool compiles = std::ranges::any_of(modes, [](const std::string& mode) { return mode != "eager"; });
  return compiles && !backend::named(device.target).on_host && std::ranges::find(modes, graphs) == modes.end();
}

std::vector<std::string> with_cuda_graphs(std::vector<std::string> modes, const DeviceFacts& device,
                                          const ClaimTime& eager) {
  if (may_need_cuda_graphs(modes, device) && is_bound_by_host(eager)) modes.emplace_back(graphs);
  return modes;
}

}  // namespace planish::session
