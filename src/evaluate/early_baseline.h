#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "worker/baseline.h"

namespace planish {

/// Modes of torch.compile that are compiled while candidates are searched. The host's part goes on at once; the device
/// is left alone until finish(): nothing is measured beside candidates, theirs or ours. It runs PyTorch and the task,
/// and nothing of a candidate. One thread; the destructor ends the process wherever it is.
class EarlyBaseline {
 public:
  struct Ready {
    worker::Baseline process;
    std::map<std::string, double> seconds;  ///< by mode, of compiling: those that were
  };

  /// Opens the task and begins. Errors: no pipe.
  static Result<std::unique_ptr<EarlyBaseline>> begin(worker::Baseline process, const std::string& task,
                                                      const std::string& device, const std::string& accuracy,
                                                      std::vector<std::string> modes, double open_seconds);
  ~EarlyBaseline();
  EarlyBaseline(const EarlyBaseline&) = delete;
  EarlyBaseline& operator=(const EarlyBaseline&) = delete;

  /// Gives the device to it and waits. Nothing where it failed, died, or took longer than `seconds` (it is ended then):
  /// whoever asks anew hears why.
  std::optional<Ready> finish(double seconds);

 private:
  EarlyBaseline(worker::Baseline process, UniqueFd gate) : process_(std::move(process)), gate_(std::move(gate)) {}

  worker::Baseline process_;
  UniqueFd gate_;  ///< closed: the device is its own
  std::future<std::map<std::string, double>> work_;
};

}  // namespace planish
