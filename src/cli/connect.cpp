#include "cli/connect.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/file.h"
#include "evaluate/client.h"
#include "worker/toolbox.h"

namespace planish::cli {
namespace {

/// The client, with the folder that its socket lies in.
class OwnEvaluator : public EvaluatorApi {
 public:
  OwnEvaluator(TempDir folder, std::unique_ptr<EvaluatorClient> client)
      : folder_(std::move(folder)), client_(std::move(client)) {}
  Result<OpenReply> open(const OpenRequest& request) override { return client_->open(request); }
  Result<RegionReply> region(const RegionRequest& request) override { return client_->region(request); }
  Result<Evaluation> evaluate(const EvaluateRequest& request) override { return client_->evaluate(request); }
  Result<VerifyReply> verify(const VerifyRequest& request) override { return client_->verify(request); }
  Result<ClaimReply> claim(const ClaimRequest& request) override { return client_->claim(request); }
  Status close(const std::string& session) override { return client_->close(session); }

 private:
  TempDir folder_;
  std::unique_ptr<EvaluatorClient> client_;
};

}  // namespace

Result<std::unique_ptr<EvaluatorApi>> connect_evaluator(const Output&) {
  // What is missing is named here, before anything is started.
  PLANISH_CHECK(worker::Toolbox::resolve().check());
  PLANISH_TRY(auto folder, TempDir::create("planish-"));
  PLANISH_TRY(auto client, EvaluatorClient::spawn(executable_path(), folder.path() / "evaluator", 60));
  return std::make_unique<OwnEvaluator>(std::move(folder), std::move(client));
}

}  // namespace planish::cli
