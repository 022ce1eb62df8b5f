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

/// One level of a suite, or all of it. Of several solutions of one task the one with the lowest number counts, as in
/// KernelBench.
struct LevelScore {
  int level = 0;                             ///< 0: all
  int tasks = 0;                             ///< all of the level, answered or not
  int correct = 0;                           ///< verified by our rule, or shipped
  int compat_correct = 0, compat_asked = 0;  ///< by KernelBench's own rule
  struct Against {
    std::map<double, int> faster;  ///< threshold → tasks that are correct and gain more than that
    Mean mean;                     ///< geometric, of the correct ones that were timed
  };
  std::map<std::string, Against> against;  ///< by baseline
};
inline constexpr double fast_thresholds[] = {0, 1, 1.5, 2, 5};
/// One for each level in order where there are levels, then one for all.
std::vector<LevelScore> level_scores(const std::vector<Row>& rows);

struct Score {
  std::map<std::string, Mean> by_baseline;
  Mean best_baseline;
  Mean headline;  ///< of the number that each task is known by
  std::vector<std::string> improved, no_improvement, failed, interrupted;
  std::vector<std::string> verified, refused, unanswered;  ///< of solutions
  std::map<std::string, int> verdicts;                     ///< of solutions: how many by name
  double seconds = 0;                                      ///< of the tasks that ran now, one after another
  std::map<std::string, double> seconds_in;                ///< of these by phase; the rest is starting and ending
};

/// What a suite's document has beside its rows.
struct SuiteFacts {
  std::string folder, solutions;       ///< as given; solutions empty where tasks are optimised
  std::string settings = "{}";         ///< a JSON object
  std::vector<std::string> unmatched;  ///< solutions of no task
};

/// Geometric means of the speed-ups. A task with no improvement counts as 1.00 against every baseline it was timed
/// with, and is named: what ships there is a baseline, and that is nothing gained. Failed and interrupted tasks are in
/// no mean, and named.
Score score(const std::vector<Row>& rows);

/// The suite's document: rows, means, levels, names.
std::string suite_json(const std::vector<Row>& rows, const SuiteFacts& facts);
/// The table for people.
std::string suite_table(const std::vector<Row>& rows);
/// The name of a row among the others: that of its task, with its number where there are several solutions.
std::string name_of(const Row& row);

}  // namespace planish::suite
