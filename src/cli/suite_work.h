#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "cli/output.h"
#include "cli/workplace.h"
#include "suite/row.h"

/// How a suite works its tasks off: commands of this program, one process each, on as many evaluators as there are
/// devices and workers.
namespace planish::cli {

struct SuiteJob {
  std::string name;                ///< for people
  std::filesystem::path folder;    ///< of its results
  std::filesystem::path document;  ///< that its command leaves, or that its output is kept in
  bool keep_output = false;        ///< the command prints the document and does not write it
  std::string key;                 ///< what must be equal for a finished one to be taken over
  suite::Row row;                  ///< what is known of it before it has run
  bool runs = true;                ///< false: the row is all there is to it
  /// Arguments of the command, on the evaluator of this name.
  std::function<std::vector<std::string>(const std::string&)> command;
};

struct SuiteWork {
  std::vector<SuiteJob> jobs;
  std::vector<std::string> devices;  ///< as devices_for() gives them
  int workers = 1;                   ///< evaluators a device
  std::string ray;                   ///< address of a Ray cluster whose devices are used instead; empty: none
  std::string target;                ///< for --ray
  double task_timeout = 600;
  double job_seconds = 0;  ///< a command that takes longer hangs; 0: no limit
  bool resume = false;
  bool stop_at_first = false;  ///< no job is begun behind the first that fails or is refused
  std::function<Status(const std::vector<suite::Row>&)> save;  ///< after each, with all rows so far, in order
};

/// Those of the jobs that the expression chooses by their names (suite/choice.h); all where it is empty. Kind `usage`,
/// also where none is left.
Status choose_jobs(std::vector<SuiteJob>& jobs, const std::string& expression);

/// True where --exitfirst ended the suite; says how many jobs were not begun.
bool stopped_at_first(const SuiteWork& work, const std::vector<suite::Row>& rows, const Output& output);

/// The rows in the order of the jobs: all of them, or those that were done when somebody interrupted. Errors are those
/// of save(): a job that fails is a row. Where several evaluators share a device, a job for which memory does not
/// suffice runs once more when no other does.
Result<std::vector<suite::Row>> work_off(const SuiteWork& work, const Output& output, const CancelToken& cancel);

/// The same at these places, those of different devices first.
Result<std::vector<suite::Row>> work_off_at(std::vector<std::unique_ptr<Workplace>> places, const SuiteWork& work,
                                            const Output& output, const CancelToken& cancel);

/// How a suite names what became of a row, in one line.
std::string suite_row_text(const suite::Row& row);

}  // namespace planish::cli
