#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/owned_folder.h"
#include "base/result.h"
#include "worker/messages.h"
#include "worker/toolbox.h"

namespace planish::worker {

class Child;

/// The process that times eager, torch.compile's modes and shipped modules by the same Python call. One caller at a
/// time. Errors: those of Child (rpc.h), and what it reports (a mode that does not compile is an error of add() and
/// leaves it usable).
class Baseline {
 public:
  /// As a guest (docs/sandbox.md), since shipped modules bring kernels: but with the caches of PyTorch's compilers.
  /// `compiles`: it imports torch.compile's part of PyTorch before it is asked for a mode of it.
  static Result<Baseline> start(const Toolbox& tools, const std::string& device, std::size_t max_rss = 0,
                                bool compiles = false);
  static Result<Baseline> start(const SpawnOptions& options);
  Baseline(Baseline&&) noexcept;
  Baseline& operator=(Baseline&&) noexcept;
  ~Baseline();

  /// Answers once it has imported what it needs.
  Status hello(double timeout_seconds = 300);
  Status open(const std::string& task, const std::string& device, const std::string& accuracy, double timeout_seconds);
  /// Seconds it took to compile. `path` only for kind `shipped`. `out_of_time` where it is not ready in time; the
  /// others stay as they are.
  Result<double> add(const std::string& name, const std::string& kind, const std::string& path, double timeout_seconds);
  /// A mode of torch.compile whose device is left alone until the other end of the pipe `gate` is closed, however long
  /// that takes; what comes before goes on beside other work. kill() from another thread ends it.
  Result<double> add_behind(int gate, const std::string& mode);
  /// By name: its times, or why it has none (`wrong_when_timed`, or what it raised).
  Result<std::map<std::string, Result<Timing>>> time(const std::vector<std::string>& names, const TimeRequest& request,
                                                     double timeout_seconds);

  bool alive() const;
  /// Whether a spare's process is still there.
  bool running();
  void kill();

 private:
  explicit Baseline(std::unique_ptr<Child> child);
  std::optional<OwnedFolder> scratch_;  ///< outlives the child
  std::unique_ptr<Child> child_;
};

}  // namespace planish::worker
