#pragma once

#include <string>
#include <vector>

namespace planish::cli {

/// Devices that a suite spreads its tasks over, as CUDA_VISIBLE_DEVICES takes them: those of --devices (a list with
/// commas), else those that CUDA_VISIBLE_DEVICES allows, else all that the driver has. One without a name, the device
/// that a task would find by itself, where there is nothing to choose: the CPU, or a machine without NVIDIA's driver.
std::vector<std::string> devices_for(const std::string& option, const std::string& target);

}  // namespace planish::cli
