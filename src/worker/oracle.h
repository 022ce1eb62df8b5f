#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "worker/messages.h"
#include "worker/toolbox.h"

namespace planish::worker {

class Child;

/// The process that owns reference, inputs, expected values and tolerances. One caller at a time. Errors: those of
/// Child (rpc.h) — the oracle is of no more use after one — and the kinds that the oracle reports about the task.
class Oracle {
 public:
  static Result<Oracle> start(const Toolbox& tools);
  static Result<Oracle> start(SpawnOptions options);
  Oracle(Oracle&&) noexcept;
  Oracle& operator=(Oracle&&) noexcept;
  ~Oracle();

  /// A second one, as new as this one, of which nothing but hello() has been asked yet: it has imported what this one
  /// has. `unsupported` where the process cannot make one.
  Result<Oracle> twin(double timeout_seconds = 120);

  Result<HelloReply> hello(const std::string& device, double timeout_seconds = 120);
  /// `variant` n > 0: with the n-th of the other shapes that the file declares; `no_variant` where there are fewer.
  Result<TaskReply> open(const std::string& task, const std::string& accuracy, const std::string& blobs,
                         double timeout_seconds, int variant = 0);
  Status region(const std::string& region, const std::vector<int>& nodes, const std::vector<int>& inputs,
                const std::vector<int>& outputs, double timeout_seconds);
  /// `own_parameters`: the task's parameters and buffers stay its own, for this data and whatever it is refreshed with;
  /// with a variation they are those instead (`skipped` where the task cannot be constructed so).
  Result<DataSet> make(const std::string& region, const std::string& data, std::uint64_t seed,
                       const std::string& regime, double timeout_seconds, bool own_parameters = false,
                       Variation variation = std::nullopt);
  /// The reason, where the regime leaves the task's domain for this seed; empty when done.
  Result<std::string> refresh(const std::string& data, std::uint64_t seed, const std::string& regime,
                              double timeout_seconds);
  Status poison(const std::string& data, double timeout_seconds);
  Result<CheckReply> check(const std::string& data, const std::string& stage, double timeout_seconds,
                           bool digest = false);
  /// Whether eager gives the same bits each time on what the data hold; nothing where memory does not suffice.
  Result<std::optional<bool>> repeat(const std::string& data, double timeout_seconds);
  /// Whether the task's own model gives the same on it in its other mode; nothing where it cannot be called so.
  Result<std::optional<bool>> other_mode(const std::string& data, double timeout_seconds);
  Result<MutationReply> mutation_check(const std::string& region, double timeout_seconds);
  Result<RegimesReply> regimes(const std::string& region, double timeout_seconds);
  Status drop(const std::string& data, double timeout_seconds);

  bool alive() const;
  /// Whether a spare's process is still there.
  bool running();
  /// What it was about to do with the task when it was last heard of ("importing it"); may be empty.
  std::string stage() const;
  /// From any thread: ends it, so that a call in flight returns.
  void kill();
  void set_cancel(CancelToken token);

 private:
  explicit Oracle(std::unique_ptr<Child> child);
  std::unique_ptr<Child> child_;
};

}  // namespace planish::worker
