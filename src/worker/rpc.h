#pragma once

// Include from .cpp files only (base/json.h).
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/family.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/subprocess.h"
#include "worker/messages.h"

namespace planish::worker {

/// A child that answers requests (docs/formats/wire.md), one at a time. Owned by one thread; kill() from any.
///
/// Errors: what the child itself reported, under its own kind; and, once it is of no more use (`alive()` is false, its
/// group killed): `crash` (a signal; fault() says where if its handler could), `exit` (it ended by itself), `hang` (the
/// deadline passed), `out_of_time` (what the thread's WorkScope left was less than the call may take), `out_of_memory`
/// (resident memory over the limit, or killed by the kernel for lack of it), `killed` (by somebody, or by the kernel
/// without a count that says so; stopped and left so), `protocol` (it said something that is no answer), `cancelled`.
class Child {
 public:
  struct Reply {
    Json result;
    std::vector<UniqueFd> fds;
  };

  /// `name` is how messages call it ("oracle").
  static Result<std::unique_ptr<Child>> start(std::string name, const SpawnOptions& options);

  /// A second one, which the child makes beside itself by its method `twin`, before anything else was asked of it.
  Result<std::unique_ptr<Child>> twin(double timeout_seconds);

  Result<Reply> call(const std::string& method, Json params, std::span<const int> fds, double timeout_seconds);

  /// A request of which the child says `ready` first, and does the rest when it is rung for: what is timed is that
  /// alone. From `ready` on, and again once it has answered the bell, the child and all that came of it are stopped, so
  /// that nothing is done in between; the next request lets them go on. Errors of each are those of call().
  Status prepare(const std::string& method, Json params, double timeout_seconds);
  struct Answered {
    std::string line;    ///< what it said
    pid_t process = 0;   ///< who said so; 0 where the kernel does not tell
    double seconds = 0;  ///< from before they went on until they were stopped
    double worked = 0;   ///< seconds of a processor that they had used before, while they were stopped
  };
  Result<Answered> ring(double timeout_seconds);
  /// What came of the request.
  Result<Reply> finish(double timeout_seconds);
  /// Stops it, and all that came of it, until the next request: nothing of it runs while something else is timed.
  void hold();
  /// Seconds of a processor that they have used all the same since they were last stopped.
  double worked_while_stopped() const { return family_.worked_since(); }

  bool alive() const { return alive_; }
  /// Whether the error that a call just gave is the child's own word, and not what was found of it here.
  bool reported() const { return reported_; }
  /// Longer lines than this from it are a `protocol` error.
  void set_line_limit(std::size_t bytes) { process_.channel().set_line_limit(bytes); }
  /// Of one that nobody has asked anything for a while: whether its process is still there.
  bool running() { return alive_ && !process_.poll().has_value(); }
  const std::optional<Fault>& fault() const { return fault_; }
  /// What it last said it was about to do in foreign code; for messages only. Empty at the start of each call.
  const std::string& stage() const { return stage_; }
  /// JSON text of what holds a guest in its place, as whoever confined it said; empty where nobody did.
  const std::string& sandbox() const { return sandbox_; }
  void set_memory_limit(std::size_t bytes) { memory_limit_ = bytes; }
  /// Asleep for so long in the middle of an answer, with processes that came of it since its first answer, it is a
  /// `hang`: nobody can wake them. Of one that sleeps alone the limits of requests decide. Before the first request.
  void set_sleep_limit(double seconds) { sleep_limit_ = seconds; }
  /// Stopped by a signal for so long, looked at all the while, it is ended as `killed`: only who stopped it can let it
  /// go on.
  void set_stop_limit(double seconds) { stop_limit_ = seconds; }
  void set_cancel(CancelToken token) { cancel_ = std::move(token); }
  void kill() { process_.kill(); }
  std::string output_tail() const { return process_.output_tail(); }
  pid_t pid() const { return process_.pid(); }

 private:
  Child(std::string name, Subprocess process);
  template <typename Work>
  auto within(double timeout_seconds, const std::string& method, Work&& work);
  Result<Reply> exchange(const std::string& method, Json params, std::span<const int> fds, TimePoint deadline,
                         bool& connection_lost);
  Status send(std::int64_t id, const std::string& method, Json params, std::span<const int> fds, TimePoint deadline);
  /// Nothing where it said that it is `ready`, which only a request is asked that is prepared.
  Result<std::optional<Reply>> answer(std::int64_t id, bool may_be_ready, TimePoint deadline, bool& connection_lost);
  Result<std::string> receive(TimePoint deadline);
  /// Ends the child and words what happened.
  std::unexpected<Error> lost(Error error, const std::string& method, double timeout_seconds);

  std::string name_;
  Subprocess process_;
  bool alive_ = true;
  bool reported_ = false;
  std::optional<Fault> fault_;
  std::string stage_;
  std::string sandbox_;
  bool asked_ = false;  ///< an answer has come: from now on what it says of its place is the guest's word
  std::size_t memory_limit_ = 0;
  double sleep_limit_ = 0;  ///< 0: none
  double stop_limit_ = 10;
  int alone_ = 0;  ///< processes when it first answered, before it did anything foreign
  Family family_;
  std::int64_t prepared_ = 0;  ///< the number of the request that waits to be rung for
  std::optional<CancelToken> cancel_;
  OomKills oom_kills_;
  std::optional<std::int64_t> kills_before_;  ///< when it last showed that it lives
};

}  // namespace planish::worker
