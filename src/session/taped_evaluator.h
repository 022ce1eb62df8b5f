#pragma once

#include "evaluate/api.h"
#include "session/tape.h"

namespace planish::session {

/// An evaluator whose answers are kept on a tape, or come from one: then there is none, and nothing is compiled or
/// measured. Proofs and claims are not kept; without an evaluator they fail with `not_recorded`. Thread-safe.
class TapedEvaluator : public EvaluatorApi {
 public:
  /// Borrows both. `inner` is null where the tape replays.
  TapedEvaluator(EvaluatorApi* inner, Tape& tape) : inner_(inner), tape_(tape) {}
  Result<OpenReply> open(const OpenRequest& request) override;
  Result<RegionReply> region(const RegionRequest& request) override;
  Result<Evaluation> evaluate(const EvaluateRequest& request) override;
  Result<VerifyReply> verify(const VerifyRequest& request) override;
  Result<ClaimReply> claim(const ClaimRequest& request) override;
  Status close(const std::string& session) override;
  void listen(WorkScope::Listener listener) override;
  void end_when_interrupted(bool ends) override;

 private:
  EvaluatorApi* inner_;
  Tape& tape_;
};

}  // namespace planish::session
