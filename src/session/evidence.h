#pragma once

#include <string>
#include <vector>

#include "evaluate/api.h"
#include "evaluate/evaluation.h"
#include "session/result_document.h"

namespace planish::session {

/// What lets a stranger repeat the claim. Plain data, gathered as a run goes on.
struct Evidence {
  std::string command, settings, torch, python;
  std::string program;       ///< the shipped program's document; empty for the baseline form
  Evaluation evaluation;     ///< of the composed program, level full
  VerifyReply verification;  ///< of the shipped folder, in fresh processes
  ClaimReply claim;          ///< with the raw samples
};

/// planish.evidence/1 as JSON text.
std::string evidence_json(const ResultDocument& result, const Evidence& evidence);

}  // namespace planish::session
