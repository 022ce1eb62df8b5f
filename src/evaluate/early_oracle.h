#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "base/result.h"
#include "evaluate/api.h"
#include "worker/oracle.h"

namespace planish {

/// An oracle that opens a task for the proof of what ships while that is still being tested by another: large models
/// take tens of seconds to import, construct, capture and describe. Nothing of a candidate comes near it. The
/// destructor ends the process wherever it is.
class EarlyOracle {
 public:
  struct Opened {
    worker::TaskReply task;
    RegionReply described;  ///< the whole task
  };
  struct Ready {
    worker::Oracle process;
    Opened opened;
  };
  using Work = std::function<Result<Opened>(worker::Oracle&)>;

  /// `work` runs in a thread of its own, until when this thread's work is waited for.
  EarlyOracle(worker::Oracle process, Work work);
  ~EarlyOracle();
  EarlyOracle(const EarlyOracle&) = delete;
  EarlyOracle& operator=(const EarlyOracle&) = delete;

  /// Waits until it has done its work: from then on the device is left alone.
  void settle();
  /// The same, once. Nothing where it failed or died: whoever asks anew hears why.
  std::optional<Ready> finish();

 private:
  worker::Oracle process_;
  std::future<Result<Opened>> work_;
};

}  // namespace planish
