#pragma once

#include <sys/types.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/channel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace planish {

struct SpawnOptions {
  /// Program (a path, or a name looked up in PATH) and its arguments.
  std::vector<std::string> command;
  /// Added to this process's environment; an empty optional removes the variable. What hide_from_children() named is
  /// never passed on.
  std::vector<std::pair<std::string, std::optional<std::string>>> env;
  /// Working folder; empty keeps ours.
  std::filesystem::path directory;
  /// What the child reads on stdin; nothing means /dev/null.
  std::optional<std::string> input;
  /// Gives the child one end of a socket pair as descriptor 3, and us the other.
  bool channel = false;
  /// Keep the whole output instead of the last 64 KiB (never more than 64 MiB).
  bool whole_output = false;
};

/// How a child ended.
struct ExitStatus {
  int code = 0;    ///< exit status; meaningless where signal is not 0
  int signal = 0;  ///< the signal that killed it, or 0
  bool ok() const { return code == 0 && signal == 0; }
  /// "exit status 3", "signal 11 (Segmentation fault)".
  std::string text() const;
};

/// A child process in a process group of its own, which dies with us (parent-death signal) and with this object (the
/// group is killed; what it leaves running in its group when it ends is killed as well). Its stdout and stderr go
/// together into a bounded tail, drained by a thread, so that a child that floods them neither blocks nor costs memory.
///
/// Children are forked by one thread that lives as long as the process: the parent-death signal belongs to the *thread*
/// that forked, and would kill the children of a short-lived one. kill(), output_tail() and pid() may be called from
/// any thread; the rest by the owner.
class Subprocess {
 public:
  /// `no_such_program`, `permission_denied`, `spawn_failed`.
  static Result<Subprocess> spawn(const SpawnOptions& options);
  /// Ends of the channel and of the output of a child that another child makes beside itself (its parent is then this
  /// process); `theirs` are handed to who makes it: the channel's, then the output's.
  struct Ends {
    Channel channel;
    UniqueFd output;
    std::array<UniqueFd, 2> theirs;
    /// `spawn_failed`.
    static Result<Ends> make();
  };
  /// That child, from when it is there: `spawn_failed` where no child of ours has this number.
  static Result<Subprocess> adopt(pid_t pid, Ends ends);
  Subprocess(Subprocess&&) noexcept;
  Subprocess& operator=(Subprocess&&) noexcept;
  ~Subprocess();

  pid_t pid() const;
  /// Valid where SpawnOptions::channel was set.
  Channel& channel();
  /// SIGKILL (or another signal) to the whole group. No error if it is gone.
  void kill(int signal = 9);
  /// Waits; `timeout` leaves it running, `cancelled` too.
  Result<ExitStatus> wait(TimePoint deadline, const CancelToken* cancel = nullptr);
  /// Without waiting: the status if it has ended.
  std::optional<ExitStatus> poll();
  /// The last 64 KiB of stdout and stderr, in the order they came. Complete once wait() has returned.
  std::string output_tail() const;
  /// Resident memory of the process in bytes, 0 when it is gone.
  std::size_t resident_bytes() const;

 private:
  struct State;
  explicit Subprocess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct CommandResult {
  ExitStatus status;
  std::string output;
};
/// Runs a command to its end. `timeout` kills its group, and a cause carries the end of its output, or most of it, a
/// MiB, where all is asked for.
Result<CommandResult> run_command(SpawnOptions options, double timeout_seconds, const CancelToken* cancel = nullptr);

}  // namespace planish
