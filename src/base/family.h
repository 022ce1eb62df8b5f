#pragma once

#include <sys/types.h>

#include <vector>

#include "base/fd.h"

namespace planish {

/// The processes that came of one, to be stopped and let go on together. The first itself is not among them: of a guest
/// it is whoever watches over it (docs/sandbox.md). One thread at a time. What is stopped goes on at the end of the
/// object's life.
class Family {
 public:
  explicit Family(pid_t first) : first_(first) {}
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  ~Family() { go_on(); }

  /// Stops those that were there when it was last looked, at once. Then looks for others, and stops them as well: true
  /// where there were any, which ran on in between.
  void stop();
  bool stop_others();
  void go_on();
  /// Waits for a moment until every thread of them stands still, and remembers what processor time they have used. A
  /// signal only asks: whoever was asleep stops once it has been woken, and whoever gets a SIGCONT of its own goes on.
  void settle();
  /// Seconds of a processor that they have used since settle() all the same: who is stopped uses none.
  double worked_since() const;

  /// Processor time that the first and all that came of it have used so far.
  struct Use {
    double seconds = 0;
    int processes = 0;
    bool waits = true;  ///< each of them sleeps; false where one runs, waits for a disk, or was stopped
  };
  Use use() const;
  /// The first is stopped (SIGSTOP, job control), which a debugger's halt is not.
  bool first_is_stopped() const;

 private:
  struct Member {
    pid_t pid = 0;
    UniqueFd handle;  ///< of the process itself, where the kernel has such: a number may be another's by now
  };
  void signal_all(int signal) const;
  /// Of all threads that came of the first: the processor time used so far, and whether none of them can run.
  struct Threads {
    double seconds = 0;
    bool still = true;
  };
  Threads threads() const;

  pid_t first_;
  std::vector<Member> members_;
  bool stopped_ = false;
  double settled_seconds_ = 0;
};

}  // namespace planish
