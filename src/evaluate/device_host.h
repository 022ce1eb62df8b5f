#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "evaluate/api.h"
#include "evaluate/compile_pool.h"
#include "evaluate/device_turn.h"
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
  /// Held while something runs on the device. Ends with the object.
  class Stage {
   public:
    Stage(Stage&&) = default;
    Stage& operator=(Stage&&) = delete;
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;
    ~Stage() {
      if (lock_.owns_lock()) turn_->end();
    }

   private:
    friend struct DeviceHost;
    using Lock = std::unique_lock<std::timed_mutex>;
    Stage(Lock lock, DeviceTurn& turn) : lock_(std::move(lock)), turn_(&turn) {}
    Lock lock_;
    DeviceTurn* turn_;
  };
  /// Tests and timing of this evaluator take turns, and with those of other processes. Guards `runners`, `spares` and
  /// `turn`. A wait for another than `who` (a task) is reported: that a task waits for itself is how it works.
  /// `out_of_time` where the thread's WorkScope ends first; kinds of lock_device for other processes.
  Result<Stage> take_stage(const void* who, const std::string& name, double timeout_seconds);

  /// Before something is measured: on the CPU, whoever imports for later would be measured as well. Under the stage.
  void settle();

  std::timed_mutex stage;
  DeviceTurn turn;                              ///< under the stage
  std::atomic<const void*> on_stage = nullptr;  ///< who took it last
  RunnerHost runners;
  Spares spares;
  CompilePool pool;
};

/// `cuda` where a GPU answers, else `cpu`; an explicit target as it is.
std::string resolve_target(const std::string& target);

}  // namespace planish
