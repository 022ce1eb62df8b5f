#include "cli/devices.h"

#include <algorithm>
#include <cstdlib>

#include "evaluate/device_host.h"
#include "evaluate/nvml.h"

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
  if (found.empty() && resolve_target(target) == "cuda") {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    found = visible != nullptr ? split(visible) : Nvml().uuids();
  }
  if (found.empty()) found.emplace_back();
  return found;
}

}  // namespace planish::cli
