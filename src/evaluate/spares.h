#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "worker/baseline.h"
#include "worker/oracle.h"
#include "worker/toolbox.h"

namespace planish {

/// Oracles and baseline processes that are started before somebody needs them: each imports PyTorch, and of it what it
/// will use, for seconds, which pass beside other work. A spare is as new as one that is started when it is asked for:
/// nothing has been asked of it but whether it is there, and nothing foreign has run in it. One caller at a time.
class Spares {
 public:
  /// `device` is cpu or cuda; `max_rss` bytes of resident memory of a baseline process, 0 for no limit.
  Spares(worker::Toolbox tools, std::string device, std::size_t max_rss)
      : tools_(std::move(tools)), device_(std::move(device)), max_rss_(max_rss) {}

  /// Starts those that are missing, without waiting for them. One that cannot be started is missed when it is needed.
  /// `compiles`: modes of torch.compile will be asked for. `oracle`: false where a twin will be kept.
  void prepare(bool compiles, bool oracle = true);
  void prepare_oracle();
  /// Keeps a twin of `oracle`, of which nothing was asked yet but hello(), for who wants one next: a process that waits
  /// takes no time, and an import of PyTorch two seconds of a processor. On the CPU: what a driver holds is not copied.
  void keep_twin(worker::Oracle& oracle);
  /// Waits until they have imported what they will use: on the CPU that would be measured as well. There only, since on
  /// a GPU their answer would make a context.
  void settle();
  Result<worker::Oracle> oracle();
  Result<worker::Baseline> baseline(bool compiles);

 private:
  worker::Toolbox tools_;
  std::string device_;
  std::size_t max_rss_;
  std::optional<worker::Oracle> oracle_;
  std::optional<worker::Baseline> baseline_;
};

}  // namespace planish
