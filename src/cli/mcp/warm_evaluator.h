#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/owned_folder.h"
#include "base/result.h"
#include "evaluate/client.h"
#include "mcp/server.h"

namespace planish::cli {

/// An evaluator of our own that stays warm from call to call. It is started by the first that needs it, and ends with
/// this object. One that still works for a cancelled call is left to whoever else uses it: the next call starts
/// another. Thread-safe.
class WarmEvaluator {
 public:
  explicit WarmEvaluator(double task_timeout) : task_timeout_(task_timeout) {}

  /// Runs `work` on a connection of its own; what is being done is told as the call's progress. A call that is
  /// cancelled ends at once with kind `cancelled`, and takes the evaluator along unless others use it: then its work
  /// ends by the evaluator's own limits. Kinds of starting one: `environment`, `spawn_failed`, `closed`.
  template <typename T>
  Result<T> with(const mcp::Call& call, const std::function<Result<T>(EvaluatorApi&)>& work) {
    PLANISH_TRY(const auto joined, join(call));
    const Watch watch(*joined.connection, call);
    auto result = work(*joined.connection);
    leave(*joined.running, call);
    if (!result && call.cancel.cancelled()) return fail("cancelled", "the call was cancelled");
    return result;
  }

 private:
  /// Tells a call's progress, and ends its connection when it is cancelled.
  class Watch {
   public:
    Watch(EvaluatorClient& connection, const mcp::Call& call);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

  /// An evaluator's process, which ends with the last that holds it.
  struct Running {
    OwnedFolder folder;
    std::unique_ptr<EvaluatorClient> anchor;  ///< as long as it is connected the evaluator stays
    std::vector<const mcp::Call*> calls{};    ///< that use it now
    bool spoiled = false;                     ///< it may still work for a call that was cancelled

    ~Running();
  };
  struct Joined {
    std::shared_ptr<Running> running;  // goes last
    std::unique_ptr<EvaluatorClient> connection;
  };

  Result<Joined> join(const mcp::Call& call);
  void leave(Running& running, const mcp::Call& call);

  double task_timeout_;
  std::mutex mutex_;
  std::shared_ptr<Running> running_;
};

}  // namespace planish::cli
