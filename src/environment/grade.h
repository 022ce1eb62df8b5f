#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "environment/completion.h"

namespace planish::environment {

/// What the parts of a verdict are worth. The speed-up counts for what is correct alone.
struct RewardWeights {
  double format = 0, compiled = 0, correct = 0.3, speedup = 1;
  double cap = 10;  ///< a speed-up counts at most so much
};
/// `correct=0.3,speedup=1,cap=10`: what is not named keeps its value. Kind `usage`.
Result<RewardWeights> parse_reward(std::string_view text);

/// What a completion was found to be.
struct Grade {
  std::optional<Form> form;  ///< nothing: no code was found
  bool format_ok = false;
  bool compiled = false;  ///< it could be imported and constructed, or compiled and loaded
  bool correct = false;
  /// Over `baseline`, where it was timed in turn with it: 1 where the difference is inside the noise. The 95 % interval
  /// of what was measured.
  std::optional<double> speedup, speedup_lo, speedup_hi;
  std::string baseline;
  std::string outcome;  ///< ok, `no_code`, `several_programs`, or an evaluation's (docs/formats/evaluation.md)
  std::string message;
  /// Absent where it could not be judged (`error` says why): such a sample says nothing about the completion.
  std::optional<double> reward;
  std::optional<Error> error;
  std::string verdict;  ///< JSON text: the document of `verify` or `try`; empty where there is none

  bool judged() const { return !error.has_value(); }
};

/// Of a completion without code that could be judged.
Grade unformatted(const Error& error, const RewardWeights& weights);
/// From the document that `planish verify --json` or `planish try --json` prints for a completion of this form; an
/// error document, and what is none, gives a grade with that error.
Grade grade_of(std::string_view document, Form form, const RewardWeights& weights);
/// Of what could not be judged; `form` where its code was found.
Grade not_judged(Error error, std::optional<Form> form);
/// Whether whoever judged it may have been killed on the way: then it is judged once more.
bool doubtful(const Grade& grade);

}  // namespace planish::environment
