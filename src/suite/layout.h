#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

/// What a suite runs: tasks of a folder, and what others have written for them.
namespace planish::suite {

struct Task {
  std::string name;  ///< "softmax"; "level1/7_Name" in a folder of levels: unique, and a path below the results
  std::filesystem::path path;
  int level = 0;    ///< 0: the folder has none
  int problem = 0;  ///< number in front of the file's name, within a level; 0: none
};

/// The Python files of a folder, in order; or those of its folders level1, level2, … A folder that is called so itself
/// has that level. Files that begin with `_` or `.` are none. Kinds: `no_tasks`, and those of file_error().
Result<std::vector<Task>> tasks_in(const std::filesystem::path& folder);

/// Somebody's answer to a task.
struct Work {
  Task task;
  std::filesystem::path solution;  ///< empty: nobody gave one
  int sample = 0;                  ///< of several answers to a task
  /// Where its results go, below the results' folder.
  std::string name() const;
};

struct Solutions {
  std::vector<Work> work;  ///< every task of a level that has an answer at all; answers to one task stand together
  std::vector<std::string> unmatched;  ///< files that answer no task of the folder
};

/// Solutions as KernelBench's runs have them (`level_1_problem_2_sample_0_kernel.py`), or called as the tasks are:
/// `softmax.py`, a folder `softmax` that Planish shipped (also what `optimize` or an earlier suite wrote around it).
/// Kinds: `no_solutions`, and those of file_error().
Result<Solutions> solutions_in(const std::filesystem::path& folder, const std::vector<Task>& tasks);

}  // namespace planish::suite
