#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"

/// Counters of Nsight Compute's `ncu`, where it is installed and the driver lets it read them.
namespace planish::worker {

struct Counter {
  std::string name;  ///< ours, stable: `dram_read`, `issue_active`, …
  double value = 0;
  std::string unit;  ///< "ns", "bytes", "%"; empty for a count or a ratio
};

/// One launch, as it was profiled.
struct KernelCounters {
  std::string kernel, grid, block;
  std::vector<Counter> counters;  ///< those that this device has, in our order
  /// 0 where it was not counted.
  double value(std::string_view name) const;
};

/// PLANISH_NCU, else the one on the PATH, else where CUDA and Nsight Compute install it. Kind `no_ncu`.
Result<std::filesystem::path> find_ncu();

/// What ncu printed with `--csv --page raw --print-units base`: lines of its own and of the profiled program before it
/// are passed over. Kind `no_counters`: no table, or one without a launch.
Result<std::vector<KernelCounters>> parse_ncu(std::string_view output);

struct NcuRequest {
  std::filesystem::path ncu;
  SpawnOptions program;              ///< what launches the kernels
  std::vector<std::string> kernels;  ///< by name; what else is launched is not profiled
  double timeout_seconds = 300;
};

/// Profiles every launch of these kernels in a process of its own. A metric that this ncu or device does not know is
/// left out. Kinds `no_counters` (in a sentence: not permitted, no launch, what ncu said), `timeout`.
Result<std::vector<KernelCounters>> run_ncu(const NcuRequest& request);

}  // namespace planish::worker
