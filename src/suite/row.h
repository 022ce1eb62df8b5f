#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "suite/headline.h"

namespace planish::suite {

/// What became of one task of a suite: a line of its table.
struct Row {
  std::string task;           ///< name
  std::string path;           ///< of the task file
  std::string outcome;        ///< improved | no_improvement | interrupted | failed
  std::string kind, message;  ///< of the error, where failed; the reason, where nothing was gained
  std::string shipped;
  double error_ratio = 0;                  ///< our error against eager's; 0 if not known
  std::map<std::string, double> times_ms;  ///< median by name: shipped, eager, …
  std::map<std::string, double> speedup;   ///< by baseline
  double speedup_best_baseline = 0;
  std::optional<Headline> headline;  ///< the number that the task is known by
  double seconds = 0;
  std::map<std::string, double> seconds_in;  ///< by phase
  std::string device;                        ///< that ran it, where there were several
  bool resumed = false;                      ///< taken over from an earlier run of the suite
};

/// From the result document of `optimize`, or its error document. Kind `bad_result` for anything else.
Result<Row> row_from_document(std::string_view document);
/// A task that gave no document at all.
Row failed_row(std::string task, std::string kind, std::string message);

}  // namespace planish::suite
