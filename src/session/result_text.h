#pragma once

#include <string>
#include <vector>

#include "session/result_document.h"

/// A result as sentences, for the terminal and the report.
namespace planish::session {

/// One sentence: what came of a run. The gain in it is the run's headline.
struct Conclusion {
  std::string outcome, form;
  std::optional<suite::Headline> headline;
  std::string best_baseline;
  double speedup_best_baseline = 0;
  std::string shipped_baseline;  ///< where the form is `baseline`; empty in documents from before there was that field
};
std::string text(const Conclusion& conclusion);
/// What runs in place of what, what limits it now, and what part of the gain is memory that is used again. Empty where
/// no program ships.
std::vector<std::string> why_text(const ResultDocument& result);
/// What a person wants to know: what was gained, against what, why, at what error.
std::string to_text(const ResultDocument& result);

}  // namespace planish::session
