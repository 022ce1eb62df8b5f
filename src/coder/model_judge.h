#pragma once

#include <string>

#include "coder/coder.h"
#include "coder/model_prompt.h"
#include "judge/verdict.h"
#include "llm/chat.h"

namespace planish::coder {

/// A judge's question to a model: what was measured of one program (tiers, worst element, what was compiled, roofline,
/// times), and its source. The answer is one issue, as JSON.
llm::ChatRequest judge_request(const PromptFacts& facts, const Brief& brief, const Feedback& feedback);

/// What the program was judged to be. Kind `bad_verdict`: no JSON of that form, an issue without a name, or a verdict
/// that what was measured contradicts (a mismatch of a program that passed).
Result<judge::Verdict> verdict_in(const llm::ChatReply& reply, const Evaluation& evaluation);

}  // namespace planish::coder
