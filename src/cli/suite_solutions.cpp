#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/devices.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/suite_work.h"
#include "cli/verbs.h"
#include "report/suite_page.h"
#include "suite/formats/results.h"
#include "suite/kernelbench.h"
#include "suite/layout.h"
#include "suite/score.h"

namespace planish::cli {
using namespace report;

namespace {

namespace fs = std::filesystem;
namespace kb = suite::kernelbench;

/// The most that one solution may take where --max-time says nothing: every step of it has a limit of its own.
constexpr double usual_job_seconds = 3600;

struct JudgeSettings {
  std::vector<std::string> before, arguments;  ///< of `verify`: words before the verb, and behind its files
  std::string text;                            ///< JSON; what must be equal for a finished solution to be skipped
  double job_seconds = usual_job_seconds;
};

Result<JudgeSettings> settings_of(const SuiteVerb& options) {
  const SearchOptions& o = options.search;
  JudgeSettings out;
  PLANISH_CHECK(check_target(o.target));
  PLANISH_CHECK(check_accuracy(o.accuracy));
  PLANISH_CHECK(parse_limit(o.task_timeout));
  PLANISH_TRY(auto baselines, parse_baselines(o.baselines));
  if (o.max_time != "auto") {
    PLANISH_TRY(out.job_seconds, parse_limit(o.max_time));
  }
  out.before = options.settings;
  out.arguments = {"--target",       o.target,       "--accuracy",  o.accuracy,
                   "--baselines",    o.baselines,    "--seeds",     std::to_string(options.seeds),
                   "--compat",       options.compat, "--precision", options.precision,
                   "--task-timeout", o.task_timeout};
  if (!options.no_times) out.arguments.emplace_back("--time");
  if (!o.memory_check) out.arguments.emplace_back("--no-memory-check");
  out.text = dump_json({{"target", o.target},
                        {"accuracy", o.accuracy},
                        {"baselines", options.no_times ? std::vector<std::string>() : baselines},
                        {"seeds", options.seeds},
                        {"memory_check", o.memory_check},
                        {"compat", options.compat},
                        {"precision", options.precision}});
  return out;
}

/// Of what a solution is: its text, or what its folder was shipped with.
std::string hash_of(const fs::path& solution) {
  std::error_code ignored;
  for (const fs::path& file : {solution, solution / "ship.json", solution / "shipped" / "ship.json"}) {
    if (!fs::is_regular_file(file, ignored)) continue;
    if (auto bytes = read_file(file)) return sha256_hex(*bytes);
  }
  return {};
}

SuiteJob job_of(const suite::Work& work, const fs::path& out, const JudgeSettings& settings) {
  SuiteJob job;
  job.name = work.name();
  job.folder = out / job.name;
  job.document = job.folder / "verify.json";
  job.keep_output = true;
  job.row.task = work.task.name;
  job.row.path = work.task.path.string();
  job.row.level = work.task.level;
  job.row.problem = work.task.problem;
  job.row.sample = work.sample;
  job.row.solution = work.solution.string();
  job.row.outcome = "unanswered";
  job.runs = !work.solution.empty();
  auto source = read_file(work.task.path);
  job.key = dump_json({{"source_sha256", source ? sha256_hex(*source) : ""},
                       {"solution_sha256", hash_of(work.solution)},
                       {"settings", settings.text}});
  // Baselines are timed once for all solutions of a task, on each evaluator.
  job.command = [&settings, task = work.task.path.string(), solution = work.solution.string(),
                 times = out / ".times" / work.task.name](const std::string& station) {
    std::vector<std::string> command = settings.before;
    command.insert(command.end(), {"verify", task, solution, "--json"});
    command.insert(command.end(), settings.arguments.begin(), settings.arguments.end());
    command.insert(command.end(), {"--keep-times", fmt::format("{}-{}.json", times.string(), station)});
    return command;
  };
  return job;
}

/// What an eval_results.json beside the solutions says of them. It does not say of which level, so it is read where
/// there is one.
Status add_recorded(const fs::path& folder, std::vector<SuiteJob>& jobs) {
  const fs::path file = folder / "eval_results.json";
  std::error_code ignored;
  std::set<int> levels;
  for (const SuiteJob& job : jobs) levels.insert(job.row.level);
  if (!fs::exists(file, ignored) || levels.size() != 1) return {};
  PLANISH_TRY(const auto text, read_file(file));
  auto results = kb::read_eval_results(text);
  if (!results) {
    results.error().message = fmt::format("{}: {}", file.string(), results.error().message);
    results.error().hint = "move it away, or write it again with KernelBench's script";
    return std::unexpected(std::move(results.error()));
  }
  for (SuiteJob& job : jobs) {
    const auto found = results->find(job.row.problem);
    if (found == results->end() || job.row.problem == 0) continue;
    for (const kb::Answer& answer : found->second) {
      if (answer.sample == job.row.sample)
        job.row.recorded = suite::OtherVerdict{answer.compiled, answer.correct, "", answer.metadata};
    }
  }
  return {};
}

/// --baseline-times: name → times.
Result<std::map<std::string, kb::BaselineTimes>> read_times(const std::string& files) {
  std::map<std::string, kb::BaselineTimes> out;
  for (std::size_t at = 0; at < files.size();) {
    const std::size_t comma = std::min(files.find(',', at), files.size());
    const std::string file = files.substr(at, comma - at);
    at = comma + 1;
    if (file.empty()) continue;
    PLANISH_TRY(const auto path, existing_file(file, "file"));
    PLANISH_TRY(const auto text, read_file(path));
    auto times = kb::read_baseline_times(text);
    if (!times) {
      times.error().message = fmt::format("{}: {}", file, times.error().message);
      return std::unexpected(std::move(times.error()));
    }
    out["recorded " + kb::baseline_name(file)] = std::move(*times);
  }
  return out;
}

/// Gains against times that were measured elsewhere: means, as its scripts compare them.
void compare_recorded(std::vector<suite::Row>& rows, const std::map<std::string, kb::BaselineTimes>& recorded) {
  for (suite::Row& row : rows) {
    if (row.runtime.trials == 0 || row.runtime.mean <= 0) continue;
    for (const auto& [name, times] : recorded) {
      const auto level = times.find(fmt::format("level{}", row.level));
      if (level == times.end()) continue;
      const auto found = level->second.find(fs::path(row.path).filename().string());
      if (found == level->second.end() || found->second.mean <= 0) continue;
      row.times_ms[name] = found->second.mean;
      row.speedup[name] = found->second.mean / row.runtime.mean;
    }
  }
}

kb::Stats on(const suite::Row& row, kb::Stats stats) {
  stats.hardware = row.hardware;
  stats.device = row.device.empty() ? "cpu" : "cuda:0";
  return stats;
}

/// KernelBench's own files, one folder a level: `runs/levelN/eval_results.json`, and `timing/baseline_time_….json`.
/// `compat`: correctness by its own rule, else by ours.
Status write_kernelbench(const fs::path& out, const std::vector<suite::Row>& rows, bool compat) {
  std::map<int, kb::EvalResults> levels;
  std::map<std::string, kb::BaselineTimes> times;
  std::size_t most = 0;
  for (const suite::Row& row : rows) {
    if (row.level == 0 || row.problem == 0 || row.outcome == "unanswered" || row.outcome == "interrupted") continue;
    kb::Answer answer;
    answer.sample = row.sample;
    const bool asked = compat && row.compat;
    answer.correct = asked ? row.compat->correct : row.outcome == "verified";
    answer.compiled = asked ? row.compat->compiled : row.verdict != "load_failed" && row.outcome != "failed";
    Json metadata = json_or_discarded(asked ? row.compat->metadata : "{}");
    metadata["hardware"] = row.hardware;
    metadata["device"] = row.device.empty() ? "cpu" : "cuda:0";
    metadata["planish"] = {{"outcome", row.outcome}, {"verdict", row.verdict}, {"message", row.message}};
    answer.metadata = dump_json(metadata);
    // What is not correct has no time there.
    if (answer.correct) answer.runtime = on(row, row.runtime);
    auto& answers = levels[row.level][row.problem];
    answers.push_back(std::move(answer));
    most = std::max(most, answers.size());
    for (const auto& [name, stats] : row.baseline_runtime) {
      const std::string file = kb::baseline_file(name);
      if (!file.empty())
        times[file][fmt::format("level{}", row.level)][fs::path(row.path).filename().string()] = on(row, stats);
    }
  }
  for (const auto& [level, results] : levels) {
    const fs::path folder = out / "kernelbench" / "runs" / fmt::format("level{}", level);
    PLANISH_CHECK(write_file(folder / "eval_results.json", kb::write_eval_results(results)));
    if (most > 1) {
      std::vector<int> k = {1};
      for (const int more : {5, 10}) {
        if (std::cmp_less_equal(more, most)) k.push_back(more);
      }
      PLANISH_CHECK(write_file(folder / "pass_at_k_results.json", kb::write_pass_at_k(results, k)));
    }
  }
  for (const auto& [file, all] : times)
    PLANISH_CHECK(write_file(out / "kernelbench" / "timing" / file, kb::write_baseline_times(all)));
  return {};
}

/// Where the tasks were imported from, if they were: results go back in that collection's form.
Result<suite::formats::Origin> origin_of(const fs::path& tasks) {
  const fs::path file = tasks / ".." / "origin.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return suite::formats::Origin();
  PLANISH_TRY(const auto text, read_file(file));
  return suite::formats::read_origin(text);
}

}  // namespace

int solutions_verb(const SuiteVerb& options, const Output& output) {
  auto settings = settings_of(options);
  if (!settings) return output.error(settings.error());
  auto folder = existing_file(options.folder, "folder");
  if (!folder) return output.error(folder.error());
  auto answers = existing_file(options.solutions, "folder");
  if (!answers) return output.error(answers.error());
  auto recorded = read_times(options.baseline_times);
  if (!recorded) return output.error(recorded.error());
  auto tasks = suite::tasks_in(*folder);
  if (!tasks) return output.error(tasks.error());
  const auto origin = origin_of(*folder);
  if (!origin) return output.error(origin.error());
  auto solutions = suite::solutions_in(*answers, *tasks);
  if (!solutions) return output.error(solutions.error());
  std::error_code ignored;
  const fs::path out = fs::absolute(options.out.empty() ? fs::path("planish-suite") : fs::path(options.out), ignored);
  if (fs::equivalent(out, *answers, ignored)) {
    return output.error(
        fail("usage", "--out is the folder of the solutions", "name another folder for the results").error());
  }
  if (auto made = make_directories(out); !made) return output.error(made.error());
  const CancelToken cancel = watch_interrupts();
  const suite::SuiteFacts facts{.folder = folder->string(),
                                .solutions = answers->string(),
                                .settings = settings->text,
                                .unmatched = solutions->unmatched};
  SuiteWork work;
  for (const suite::Work& one : solutions->work) work.jobs.push_back(job_of(one, out, *settings));
  if (auto chosen = choose_jobs(work.jobs, options.choose); !chosen) return output.error(chosen.error());
  if (auto added = add_recorded(*answers, work.jobs); !added) return output.error(added.error());
  if (options.ray.empty()) work.devices = devices_for(options.devices, options.search.target);
  work.workers = options.workers;
  work.ray = options.ray;
  work.target = options.search.target;
  work.task_timeout = parse_limit(options.search.task_timeout).value_or(0);
  work.job_seconds = settings->job_seconds;
  work.resume = options.resume;
  work.stop_at_first = options.stop_at_first;
  work.save = [&](std::vector<suite::Row> rows) -> Status {
    compare_recorded(rows, *recorded);
    PLANISH_CHECK(write_kernelbench(out, rows, options.compat == "kernelbench"));
    for (const auto& [file, text] : suite::formats::results_of(*origin, rows, answers->filename().string()))
      PLANISH_CHECK(write_file(out / origin->format / file, text));
    return save_suite(out, rows, facts);
  };
  auto rows = work_off(work, output, cancel);
  if (!rows) return output.error(rows.error());
  compare_recorded(*rows, *recorded);
  output.result(*rows, "suite", suite::suite_json(*rows, facts), suite::suite_table(*rows));
  if (cancel.cancelled()) {
    output.next({"suite", options.folder, "--solutions", options.solutions, "--out", out.string(), "--resume"});
    return exit_code::interrupted;
  }
  output.say("report: " + (out / "suite.html").string());
  if (stopped_at_first(work, *rows, output)) return exit_code::none_found;
  const bool any = std::ranges::any_of(*rows, [](const suite::Row& row) { return row.outcome == "verified"; });
  return any ? exit_code::success : exit_code::none_found;
}

}  // namespace planish::cli
