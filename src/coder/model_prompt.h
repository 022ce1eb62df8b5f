#pragma once

#include <string>
#include <vector>

#include "coder/coder.h"
#include "llm/chat.h"

namespace planish::coder {

/// What a model is told of the machine, once a run.
struct PromptFacts {
  std::string device;  ///< "NVIDIA H200, sm_90a: 132 multiprocessors, …"
  bool cuda = false;
};

/// The parts of a prompt, those that stay the same longest first: how to answer, then the region.
std::vector<llm::PromptPart> system_prompt(const PromptFacts& facts, const Brief& brief);
/// What is asked now: the best program so far, and what became of the model's own.
std::string request_text(const Brief& brief, const std::vector<Feedback>& news);

}  // namespace planish::coder
