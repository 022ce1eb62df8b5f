#include "cli/devices.h"

#include <algorithm>

#include "backend/backend.h"
#include "evaluate/device.h"
#include "evaluate/device_host.h"

namespace planish::cli {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::size_t first = text.find_first_not_of(' ', at), last = text.find_last_not_of(' ', comma - 1);
    if (comma > at && first < comma) out.push_back(text.substr(first, last - first + 1));
    at = comma + 1;
  }
  return out;
}

}  // namespace

std::vector<std::string> devices_for(const std::string& option, const std::string& target) {
  std::vector<std::string> found = split(option);
  const DeviceProbe* probe = found.empty() ? probe_of(backend::named(resolve_target(target))) : nullptr;
  if (probe != nullptr) found = split(probe->devices());
  if (found.empty()) found.emplace_back();
  return found;
}

}  // namespace planish::cli
