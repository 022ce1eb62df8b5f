#pragma once

#include <memory>

#include "base/cancel.h"
#include "base/result.h"
#include "evaluate/api.h"

namespace planish::cli {

struct ConnectOptions {
  /// Seconds that a task or a solution may take to be imported, built, run once and captured.
  double task_timeout = 600;
  /// Ends calls in flight, which then fail as `interrupted`: only `open` (nothing is lost yet), or `every_call`; all
  /// from EvaluatorApi::end_when_interrupted() on.
  CancelToken cancel;
  bool every_call = false;
  /// Whether one that `planish serve` keeps may be used.
  bool may_join = true;
};

/// Connects to an evaluator that runs already (PLANISH_EVALUATOR names the socket of a suite's; else one of `planish
/// serve`, where one was started in the same way), or starts one (this program's hidden verb), which ends with its
/// client. Kinds: `environment`, `spawn_failed`, `closed`.
Result<std::unique_ptr<EvaluatorApi>> connect_evaluator(const ConnectOptions& options);

}  // namespace planish::cli
