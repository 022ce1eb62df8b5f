#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/workplace.h"

namespace planish {
class EvaluatorClient;
}

namespace planish::cli {

struct StationOptions {
  double task_timeout = 600;   ///< seconds for a task or solution to be imported and captured
  std::size_t kept_tasks = 0;  ///< that stay captured between commands
};

/// One evaluator that stays warm from command to command, and where its commands run: a suite, and the environment
/// endpoint, have some for each device. Used by one thread at a time, but for said().
class Station : public Workplace {
 public:
  /// `device`: for CUDA_VISIBLE_DEVICES; empty leaves it. The evaluator listens at `socket`.
  Station(std::size_t number, std::string device, std::filesystem::path socket, StationOptions options);
  ~Station() override;
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  std::size_t number() const { return number_; }
  std::string name() const override { return std::to_string(number_); }
  std::string device() const override { return device_; }
  std::string said() const override;

  /// The evaluator is started where there is none (any more). A command that hangs is killed, and the evaluator with
  /// whatever it did for it.
  Result<Ended> run(std::vector<std::string> arguments, double seconds, const CancelToken& cancel) override;

 private:
  /// What a command of this device needs in its environment. Where the evaluator cannot be started each command starts
  /// its own.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment();

  std::size_t number_;
  std::string device_;
  std::filesystem::path socket_;
  StationOptions options_;
  mutable std::mutex mutex_;                    ///< of running_
  const Subprocess* running_ = nullptr;         ///< while run() waits for it
  std::unique_ptr<EvaluatorClient> evaluator_;  ///< as long as it is connected it stays
};

/// `workers` stations for each device, those of different devices first; their sockets lie in `folder`.
std::vector<std::unique_ptr<Station>> stations_in(const std::filesystem::path& folder,
                                                  const std::vector<std::string>& devices, int workers,
                                                  const StationOptions& options);

}  // namespace planish::cli
