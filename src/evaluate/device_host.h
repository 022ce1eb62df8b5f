#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "evaluate/api.h"
#include "evaluate/compile_pool.h"
#include "evaluate/nvml.h"
#include "evaluate/runner_host.h"
#include "evaluate/session.h"
#include "evaluate/spares.h"

namespace planish {

/// One device and the processes that work on it, shared by the tasks of an evaluator.
struct DeviceHost {
  /// Starts a runner on it. `no_device` where there is none.
  static Result<std::shared_ptr<DeviceHost>> open(const worker::Toolbox& tools, const std::string& target,
                                                  const Limits& limits);

  DeviceHost(const worker::Toolbox& tools, const std::string& target, const Limits& limits, std::size_t most_bytes,
             int workers)
      : memory_limit(most_bytes),
        runners(tools, target, most_bytes),
        spares(tools, target, most_bytes),
        pool(tools, workers) {
    (void)limits;
  }

  DeviceFacts facts;
  std::size_t memory_limit;  ///< resident bytes of a process that runs candidates
  Nvml nvml;
  using Stage = std::unique_lock<std::timed_mutex>;
  /// Held while something runs on the device: tests and timing take turns. Guards `runners` and `spares`. A wait for
  /// another than `who` (a task) is reported: that a task waits for itself is how it works. `out_of_time` where the
  /// thread's WorkScope ends first.
  Result<Stage> take_stage(const void* who);

  /// Before something is measured: on the CPU, whoever imports for later would be measured as well. Under the stage.
  void settle();

  std::timed_mutex stage;
  std::atomic<const void*> on_stage = nullptr;  ///< who took it last
  RunnerHost runners;
  Spares spares;
  CompilePool pool;
};

/// `cuda` where a GPU answers, else `cpu`; an explicit target as it is.
std::string resolve_target(const std::string& target);

}  // namespace planish
