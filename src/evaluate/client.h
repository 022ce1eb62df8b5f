#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/subprocess.h"
#include "evaluate/api.h"

namespace planish {

/// An evaluator in another process. Thread-safe: calls overlap. After `closed` (the evaluator is gone) every further
/// call fails the same way.
class EvaluatorClient : public EvaluatorApi {
 public:
  /// Joins one that listens already.
  static Result<std::unique_ptr<EvaluatorClient>> connect(const std::filesystem::path& socket);
  /// Starts `executable evaluator --socket PATH` and connects; it ends with this object, or with its last client if
  /// others joined. `arguments` follow the socket; `environment` is added to ours.
  using Environment = std::vector<std::pair<std::string, std::optional<std::string>>>;
  static Result<std::unique_ptr<EvaluatorClient>> spawn(const std::filesystem::path& executable,
                                                        const std::filesystem::path& socket,
                                                        double timeout_seconds = 20,
                                                        std::vector<std::string> arguments = {},
                                                        Environment environment = {});
  ~EvaluatorClient() override;

  Result<OpenReply> open(const OpenRequest& request) override;
  Result<RegionReply> region(const RegionRequest& request) override;
  Result<Evaluation> evaluate(const EvaluateRequest& request) override;
  Result<VerifyReply> verify(const VerifyRequest& request) override;
  Result<ClaimReply> claim(const ClaimRequest& request) override;
  Status close(const std::string& session) override;

  void listen(WorkScope::Listener listener) override;

  /// Stopped by a signal for so long (10 s unless this says otherwise), looked at all the while, the evaluator is given
  /// up: `killed`. One that this object started is ended.
  void set_stop_limit(double seconds);

  /// Wakes every call in flight with `closed`; for Ctrl-C. From any thread. The destructor then ends the process
  /// instead of waiting for it.
  void shutdown();

 private:
  struct State;
  explicit EvaluatorClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace planish
