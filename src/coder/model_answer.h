#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "coder/proposal.h"

namespace planish::coder {

/// What the edits of an answer are made to.
struct AnswerParent {
  std::string source, program;  ///< text, and hash of its program; no source: there is none
};

/// The proposal in what a language model wrote: the one fenced block that launches something or defines a ModelNew,
/// or SEARCH/REPLACE blocks for the parent. Prose around it, tags of fences, thoughts in <think> and a missing last
/// fence are passed over. Kind `bad_answer`, in words that the model can be told: no code, several programs, edits
/// without a parent, a block that does not end.
Result<Proposal> proposal_in(std::string_view answer, const AnswerParent& parent);

}  // namespace planish::coder
