#pragma once

#include <memory>
#include <mutex>

#include "evaluate/api.h"
#include "evaluate/compile_pool.h"
#include "evaluate/nvml.h"
#include "evaluate/runner_host.h"
#include "evaluate/session.h"

namespace planish {

/// One device and the processes that work on it, shared by the tasks of an evaluator.
struct DeviceHost {
  /// Starts a runner on it. `no_device` where there is none.
  static Result<std::shared_ptr<DeviceHost>> open(const worker::Toolbox& tools, const std::string& target,
                                                  const Limits& limits);

  DeviceHost(const worker::Toolbox& tools, const std::string& target, const Limits& limits, std::size_t memory_limit,
             int workers)
      : runners(tools, target, memory_limit), pool(tools, workers) {
    (void)limits;
  }

  DeviceFacts facts;
  Nvml nvml;
  /// Held while something runs on the device: tests and timing take turns. Guards `runners`.
  std::mutex stage;
  RunnerHost runners;
  CompilePool pool;
};

/// `cuda` where a GPU answers, else `cpu`; an explicit target as it is.
std::string resolve_target(const std::string& target);

}  // namespace planish
