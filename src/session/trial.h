#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/api.h"
#include "judge/verdict.h"
#include "session/plan.h"
#include "worker/ncu.h"

/// One candidate made by hand or by an agent, judged on a task that is open: `try`, and the tools of `mcp`.
namespace planish::session {

struct TrialRequest {
  std::filesystem::path file;   ///< absolute
  std::string text;             ///< of the file
  std::string region = "task";  ///< of the plan, or the whole
  bool profile = false;         ///< read the GPU's counters of what is right
  bool quick = false;           ///< one seed of the task's own data instead of five and every kind
};

struct Trial {
  /// source: kernels and launches (docs/formats/source.md). solution: a Python file, run as a guest.
  std::string form;
  std::string region, summary;
  Evaluation evaluation;
  double pytorch_ms =
      0;  ///< of the same work by PyTorch: its operators one by one, or the task's eager call; 0: not timed
  std::optional<Gain> gain;  ///< over that, timed in turn; nothing where it could not be
  judge::Verdict verdict;
  std::vector<std::string> degenerate;  ///< trivial outputs that would pass as well
  std::vector<Note> notes;
  std::vector<worker::KernelCounters> counters;  ///< of each launch, where they were asked for and could be read
  std::string sandbox;                           ///< JSON text: what held a solution; empty for a source
};

/// Builds, tests and times it. What is wrong with the candidate is in its evaluation. Errors: `no_such_region`,
/// `bad_source`, and those of the evaluator.
Result<Trial> try_candidate(EvaluatorApi& evaluator, const OpenReply& opened, const Plan& plan,
                            const TrialRequest& request);

/// Whether it is right, and that says something: not where the whole task's output could as well be zeros.
bool succeeded(const Trial& trial);
/// JSON text of an object (docs/formats/trial.md).
std::string trial_json(const Trial& trial, const OpenReply& opened);
std::string trial_text(const Trial& trial);

/// What there is to write for: the whole task and its regions. JSON text of an array, and lines for people.
std::string places_json(const Plan& plan, const DeviceFacts& device);
std::string places_text(const Plan& plan);

}  // namespace planish::session
