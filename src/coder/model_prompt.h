#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "coder/coder.h"
#include "llm/chat.h"

namespace planish::coder {

/// What a model is told of the machine, once a run.
struct PromptFacts {
  std::string device;  ///< "NVIDIA H200, sm_90a: 132 multiprocessors, …"
  const backend::Backend* target = &backend::cpu();
  std::string arch{};  ///< "sm_90a"; empty on the host
  /// Text of the task's file, which a ModelNew stands in for; empty for a live module, in whose place none can stand.
  std::string reference{};
  std::vector<std::string> dsls{};  ///< languages for kernels that such a file could import
};

/// What a prompt says of a target's languages: its part of what language models are told.
struct SourceWords {
  std::string_view comment;    ///< what directives begin with
  std::string_view example;    ///< a whole answer
  std::string_view languages;  ///< "cuda, compiled by …"
  std::string_view entries;    ///< what a function must look like that a launch names
};

/// Patterns that a prompt shows (patterns::as_material): those of the region, and those for what limits its best.
struct PromptPatterns {
  std::vector<std::string> task, cell;
};

/// The parts of a coder's prompt, those that stay the same longest first: how to answer, then the region with patterns
/// for it, then patterns for what limits the present best.
std::vector<llm::PromptPart> coder_prompt(const PromptFacts& facts, const Brief& brief, const PromptPatterns& patterns);
/// The same for whoever has ideas and writes no code.
std::vector<llm::PromptPart> planner_prompt(const PromptFacts& facts, const Brief& brief,
                                            const PromptPatterns& patterns);

/// What became of the model's own answers.
std::string news_text(const std::vector<Feedback>& news);
/// The program that is to be made faster; where there is none, that there is none.
std::string parent_text(const Brief& brief, const Brief::Known* parent);

/// What kernels for the region are looked up by.
std::string task_query(const PromptFacts& facts, const Brief& brief);
/// What helps against an issue of the judge, in the same words; empty where nothing is known to.
std::string issue_query(const PromptFacts& facts, const Brief& brief, const std::string& issue);

}  // namespace planish::coder
