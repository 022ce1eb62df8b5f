#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/owned_folder.h"
#include "base/result.h"
#include "evaluate/client.h"
#include "mcp/server.h"

namespace planish::cli {

/// An evaluator of our own that stays warm from call to call. It is started by the first that needs it, and ends with
/// this object. Thread-safe.
class WarmEvaluator {
 public:
  explicit WarmEvaluator(double task_timeout) : task_timeout_(task_timeout) {}

  /// Runs `work` on a connection of its own; what is being done is told as the call's progress. A call that is
  /// cancelled ends at once with kind `cancelled`, and takes the evaluator along unless others use it: then its work
  /// ends by the evaluator's own limits. Kinds of starting one: `environment`, `spawn_failed`, `closed`.
  template <typename T>
  Result<T> with(const mcp::Call& call, const std::function<Result<T>(EvaluatorApi&)>& work) {
    PLANISH_TRY(auto connection, connect());
    const Watch watch(*this, *connection, call);
    auto result = work(*connection);
    if (!result && call.cancel.cancelled()) return fail("cancelled", "the call was cancelled");
    return result;
  }

 private:
  /// One call's use of it.
  class Watch {
   public:
    Watch(WarmEvaluator& owner, EvaluatorClient& connection, const mcp::Call& call);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

  Result<std::unique_ptr<EvaluatorClient>> connect();
  void leave(bool cancelled);

  double task_timeout_;
  std::mutex mutex_;
  int users_ = 0;
  std::optional<OwnedFolder> folder_;
  std::unique_ptr<EvaluatorClient> anchor_;  ///< as long as it is connected the evaluator stays
};

}  // namespace planish::cli
