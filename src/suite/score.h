#pragma once

#include <map>
#include <string>
#include <vector>

#include "suite/row.h"

namespace planish::suite {

struct Mean {
  double value = 0;  ///< geometric; 0 where no task has it
  double median = 0;
  int tasks = 0;
};

struct Score {
  std::map<std::string, Mean> by_baseline;
  Mean best_baseline;
  Mean headline;  ///< of the number that each task is known by
  std::vector<std::string> improved, no_improvement, failed, interrupted;
  double seconds = 0;                        ///< of the tasks that ran now, one after another
  std::map<std::string, double> seconds_in;  ///< of these by phase; the rest is starting and ending
};

/// Geometric means of the speed-ups. A task with no improvement counts as 1.00 against every baseline it was timed
/// with, and is named: what ships there is a baseline, and that is nothing gained. Failed and interrupted tasks are in
/// no mean, and named.
Score score(const std::vector<Row>& rows);

/// The suite's document: rows, means, names. `settings` is a JSON object.
std::string suite_json(const std::vector<Row>& rows, const std::string& folder, const std::string& settings);
/// The table for people.
std::string suite_table(const std::vector<Row>& rows);

}  // namespace planish::suite
