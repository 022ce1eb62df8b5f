#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "base/subprocess.h"

namespace planish::cli {

/// Of a command's words, where `--config=FILE` or `--no-config` may stand before it.
inline std::string verb_of(const std::vector<std::string>& words) {
  const auto verb = std::ranges::find_if(words, [](const std::string& word) { return !word.starts_with('-'); });
  return verb == words.end() ? std::string() : *verb;
}

/// Where commands of this program run, one after the other: a station on this machine, or a place of a cluster's.
class Workplace {
 public:
  virtual ~Workplace() = default;

  struct Ended {
    std::string verb;
    std::string document;  ///< the last line of its output that begins as a JSON document does; empty: there is none
    ExitStatus status;
    bool interrupted = false;  ///< it was asked to end, because of `cancel`
  };
  /// A name for what is kept per evaluator (times of baselines); may be one that is filled in where the command runs.
  virtual std::string name() const = 0;
  /// As devices_for() gives it; empty where there is no choice, or somebody else chooses.
  virtual std::string device() const = 0;
  /// The last line that the command now running wrote for people; empty where nobody can say. Any thread.
  virtual std::string said() const { return {}; }
  /// `seconds` ≤ 0: no limit. Kinds: `hang` (its time was over), `worker_lost` (a cluster's, more than once), those of
  /// Subprocess::spawn().
  virtual Result<Ended> run(std::vector<std::string> arguments, double seconds, const CancelToken& cancel) = 0;
};

}  // namespace planish::cli
