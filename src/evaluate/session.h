#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "evaluate/api.h"
#include "worker/toolbox.h"

namespace planish {

/// Time limits in seconds, and sizes. What a hang costs against what an honest slow task needs.
struct Limits {
  double start = 300;    ///< import torch
  double open = 600;     ///< import a task or a solution, capture, first inputs
  double slow_open = 4;  ///< what takes longer is opened for its proof while what will be proved is tested
  double oracle = 600;   ///< any other question to the oracle
  double compile = 60;   ///< one kernel
  double load = 60;
  double run = 30;                ///< one run of a candidate
  double memory_check = 180;      ///< two calls under one tool of compute-sanitizer, with the start of its process
  double baseline = 900;          ///< one torch.compile mode
  double lock = 1800;             ///< waiting for another run's measurement
  std::size_t runner_memory = 0;  ///< resident bytes of a native runner; 0 takes three quarters of the machine's memory
  bool stay_ready = false;        ///< more tasks will come: what they need is started when one ends
  /// Tasks whose sessions were closed that stay captured for whoever opens them again, where nothing but solutions has
  /// met them. Beside the one that is kept for tries (OpenRequest::keep), where `stay_ready`.
  std::size_t kept_tasks = 0;
  int compile_workers = 0;  ///< 0: half the cores on CUDA, one on the CPU
};

struct DeviceHost;
class TaskEvaluator;

/// The evaluator in this process: owns the children, the device stage and the locks. Thread-safe as EvaluatorApi says:
/// compiling overlaps, the device stage (tests and timing) takes one candidate at a time.
class EvaluatorSession : public EvaluatorApi {
 public:
  explicit EvaluatorSession(worker::Toolbox tools, Limits limits = {});
  ~EvaluatorSession() override;

  Result<OpenReply> open(const OpenRequest& request) override;
  Result<RegionReply> region(const RegionRequest& request) override;
  Result<Evaluation> evaluate(const EvaluateRequest& request) override;
  Result<VerifyReply> verify(const VerifyRequest& request) override;
  Result<ClaimReply> claim(const ClaimRequest& request) override;
  Status close(const std::string& session) override;

 private:
  Result<std::shared_ptr<DeviceHost>> device_for(const std::string& target);
  Result<std::shared_ptr<TaskEvaluator>> find(const std::string& session);
  using Task = std::shared_ptr<TaskEvaluator>;
  /// The kept one that this asks for, which is taken out; null where there is none. A task that is kept for tries and
  /// not the one that is asked for ends here: it holds the device's memory.
  Task take_kept(const OpenRequest& request);
  /// Keeps it, where it may be; who was kept longest makes room.
  void keep(Task task);

  worker::Toolbox tools_;
  Limits limits_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<DeviceHost>> devices_;
  std::map<std::string, Task> tasks_;
  std::list<Task> kept_;  ///< whose sessions were closed; the one that was used last in front
  int next_ = 1;
};

}  // namespace planish
