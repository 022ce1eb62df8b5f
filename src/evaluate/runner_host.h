#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/runner.h"
#include "worker/toolbox.h"

namespace planish {

/// The runners of one device: a native one with a warm spare, and a torch one once a program needs it. One caller at a
/// time.
class RunnerHost {
 public:
  RunnerHost(worker::Toolbox tools, std::string device, std::size_t memory_limit)
      : tools_(std::move(tools)), device_(std::move(device)), memory_limit_(memory_limit) {}

  /// One that has answered hello. Errors are about our own side (`environment`, or Child's kinds).
  Result<worker::Runner*> get(worker::Runner::Kind kind);
  /// The same, in which no candidate has run yet; from now on one has. Without `fresh` it may be one that ran others:
  /// `after_others`, where it is not null, says whether it is.
  Result<worker::Runner*> get_for_candidate(worker::Runner::Kind kind, bool fresh, bool* after_others = nullptr);
  /// Forgets a runner that died, or that must not be used any more; the spare takes its place at the next get().
  void discard(worker::Runner::Kind kind);
  /// Forgets the torch runners that wait: what they are to hide was settled when they were started.
  void discard_waiting() { torch_spares_.clear(); }
  /// Starts the spare, if there is none. Between candidates, so that its start costs nobody time.
  void warm_up();
  /// The same for so many torch runners, which import torch for seconds: beside what comes before their first use.
  void warm_up_torch(std::size_t count);
  /// The same for one that will run nothing but PyTorch's own compiled program.
  void warm_up_own();
  /// Waits until they have imported what they will use. On the CPU only (Spares::settle).
  void settle();
  /// A torch runner that nothing has run in and nobody else has, without hello. `own_code`: for code of ours alone.
  Result<worker::Runner> fresh_torch(bool own_code = false);
  const worker::HelloReply& hello() const { return hello_; }

 private:
  Result<worker::Runner> start(worker::Runner::Kind kind, bool own_code = false);
  bool& used(worker::Runner::Kind kind);
  worker::Toolbox tools_;
  std::string device_;
  std::size_t memory_limit_;
  std::optional<worker::Runner> native_, torch_, spare_, own_spare_;
  std::vector<worker::Runner> torch_spares_;
  bool native_used_ = false, torch_used_ = false;  ///< by a candidate
  worker::HelloReply hello_;
};

}  // namespace planish
