#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// The files that KernelBench's scripts read and write, field by field as they do. Its own words: a run is a folder of
/// answers to the problems of one level; times are milliseconds.
namespace planish::suite::kernelbench {

/// What its timing keeps of a number of trials.
struct Stats {
  double mean = -1, std = 0, min = 0, max = 0;  ///< to three digits where written
  int trials = 0;
  std::string hardware, device;  ///< "NVIDIA H200", "cuda:0"
};
/// Of samples; none gives a mean of -1, which is its word for none.
Stats stats_of(const std::vector<double>& samples_ms);

/// One answer of eval_results.json.
struct Answer {
  int sample = 0;
  bool compiled = false, correct = false;
  std::string metadata = "{}";  ///< a JSON object
  Stats runtime;                ///< mean -1 where it was not timed
};
/// By problem.
using EvalResults = std::map<int, std::vector<Answer>>;

/// Kind `bad_eval_results` for what is no such file, with where.
Result<EvalResults> read_eval_results(std::string_view text);
std::string write_eval_results(const EvalResults& results);
/// pass_at_k_results.json of these: for k = 1 and, as its script does, k = `more` where it is larger.
std::string write_pass_at_k(const EvalResults& results, const std::vector<int>& k);
/// The probability that one of k samples, drawn of n of which c are correct, is.
double pass_at_k(int n, int c, int k);

/// baseline_time_….json: "level1" → "1_Name.py" → times.
using BaselineTimes = std::map<std::string, std::map<std::string, Stats>>;
/// Kind `bad_baseline_times` for what is no such file, with where.
Result<BaselineTimes> read_baseline_times(std::string_view text);
std::string write_baseline_times(const BaselineTimes& times);
/// The name that its scripts give the file of one of our baselines; empty for others.
std::string baseline_file(std::string_view mode);
/// What a file of that name holds: "torch" of "results/timing/H100/baseline_time_torch.json".
std::string baseline_name(std::string_view file);

/// `level_1_problem_2_sample_0_kernel.py`.
struct AnswerFile {
  int level = 0, problem = 0, sample = 0;
};
/// False for other names.
bool parse_answer_file(std::string_view name, AnswerFile& out);
/// 2 of "level2"; 0 for other names.
int level_of(std::string_view folder);
/// 7 of "7_Name"; 0 where there is no number in front.
int problem_of(std::string_view stem);

}  // namespace planish::suite::kernelbench
