#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/output.h"
#include "cli/station.h"
#include "cli/workplace.h"

namespace planish::cli {

struct RayOptions {
  std::string address;  ///< of the cluster, as ray.init() takes it: host:port, `auto`, `local`
  std::string target;   ///< what a worker needs
  int workers = 1;      ///< for each GPU, or for each machine where CPUs are what is used
  StationOptions station;
};

/// What a path or an argument of a command holds where the name of the worker that runs it is to stand.
inline constexpr const char* worker_placeholder = "{worker}";

/// A Ray cluster whose workers run commands: actors of `python -m planish.cluster`, each with an evaluator that stays
/// warm. Workers may come and go; a command whose worker is lost is given to another, and named when that happened
/// three times. So is one whose process that speaks with Ray was lost, with all its workers: another is started.
class RayPool {
 public:
  /// Kinds: `missing_package` (no ray), `no_cluster`, those of Subprocess::spawn().
  static Result<std::unique_ptr<RayPool>> start(const RayOptions& options, const Output& output);
  ~RayPool();
  RayPool(const RayPool&) = delete;
  RayPool& operator=(const RayPool&) = delete;

  /// Commands of one place run one after the other, those of different ones side by side. Must not outlive the pool.
  std::unique_ptr<Workplace> place();

 private:
  struct State;
  explicit RayPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace planish::cli
