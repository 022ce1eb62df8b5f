#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"

namespace planish::cli {

/// The runs that this process started, each a `planish optimize` of its own. They end with this object: what they
/// measured is in the store, and --resume goes on from it. Thread-safe.
class RunChildren {
 public:
  struct State {
    bool running = false;
    std::string last_line;  ///< of what it said of its progress
    std::string document;   ///< the result or error document that it ended with; empty while it runs
    std::string ended;      ///< how, where it ended
  };

  /// `settings`: words before the verb, which make its runs read the settings that this process reads.
  explicit RunChildren(std::vector<std::string> settings) : settings_(std::move(settings)) {}

  /// Starts `planish optimize` with these arguments under this id.
  Status start(const std::string& run, std::vector<std::string> arguments);
  /// Nothing for a run that was not started here.
  std::optional<State> state(const std::string& run);
  /// Interrupts it, so that it ends with what it has; or at once. False where it is not running here.
  bool end(const std::string& run, bool at_once);
  /// Ids of those that run.
  std::vector<std::string> running();

 private:
  std::vector<std::string> settings_;
  std::mutex mutex_;
  std::map<std::string, Subprocess> children_;
};

}  // namespace planish::cli
