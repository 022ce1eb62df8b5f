#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "evaluate/gain.h"
#include "suite/headline.h"
#include "suite/kernelbench.h"

namespace planish::suite {

/// What another rule says of a solution, or what a file has kept of it.
struct OtherVerdict {
  bool compiled = false, correct = false;
  std::string message;
  std::string metadata = "{}";  ///< a JSON object, KernelBench's fields
};

/// What became of one task of a suite, or of one solution: a line of its table.
struct Row {
  std::string task;           ///< name
  std::string path;           ///< of the task file
  int level = 0;              ///< 0: the suite has no levels
  int problem = 0;            ///< its number within the level; 0: none
  std::string outcome;        ///< improved | no_improvement | interrupted | failed; of solutions verified | refused |
                              ///< unanswered (nobody gave one) | interrupted | failed (it could not be judged)
  std::string kind, message;  ///< of the error, where failed; the reason, where nothing was gained or it was refused
  std::string hint;           ///< of the error, where it has one
  std::string shipped;
  std::string solution;                  ///< what was judged; empty in a suite that optimises
  int sample = 0;                        ///< of several solutions of one task
  std::string verdict;                   ///< of a solution: ok, or by name (docs/formats/evaluation.md)
  std::optional<OtherVerdict> compat;    ///< KernelBench's own rule, where it was asked for
  std::optional<OtherVerdict> recorded;  ///< what an eval_results.json beside the solutions says
  kernelbench::Stats runtime;            ///< of the solution
  std::map<std::string, kernelbench::Stats> baseline_runtime;  ///< of each baseline timed beside it
  double roofline = 0;                                         ///< fraction of the bound; 0 if not known
  std::string hardware;
  double error_ratio = 0;                  ///< our error against eager's; 0 if not known
  std::map<std::string, double> times_ms;  ///< median by name: shipped, eager, …
  std::map<std::string, double> speedup;   ///< by baseline
  std::map<std::string, Gain> gains;       ///< the same as they were measured, with intervals
  double speedup_best_baseline = 0;
  std::optional<Headline> headline;  ///< the number that the task is known by
  double seconds = 0;
  std::map<std::string, double> seconds_in;  ///< by phase
  std::string device;                        ///< that ran it, where there were several
  bool resumed = false;                      ///< taken over from an earlier run of the suite
};

/// From the result document of `optimize` or of `verify`, or an error document. Kind `bad_result` for anything else.
Result<Row> row_from_document(std::string_view document);
/// A task that gave no document at all.
Row failed_row(std::string task, std::string kind, std::string message, std::string hint = {});

}  // namespace planish::suite
