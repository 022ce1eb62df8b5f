#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/devices.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/ray_pool.h"
#include "cli/suite_work.h"
#include "cli/verbs.h"
#include "coder/model_coder.h"
#include "report/suite_page.h"
#include "store/store.h"
#include "suite/layout.h"
#include "suite/score.h"

namespace planish::cli {
using namespace report;

namespace {

namespace fs = std::filesystem;

/// A task that goes on for so long beyond its --max-time hangs.
constexpr double hang_seconds = 300;

struct SuiteSettings {
  std::vector<std::string> before, arguments;  ///< of `optimize`: words before the verb, and behind its task
  std::string text;                            ///< JSON; what must be equal for a finished task to be skipped
  double budget_seconds = 0, max_seconds = 0;
};

/// What the workers of a cluster have stored, added to the store of this machine.
Status merge_stores(const fs::path& worker_stores, const fs::path& store) {
  std::error_code ignored;
  std::optional<store::Store> main;
  for (const auto& entry : fs::directory_iterator(worker_stores, ignored)) {
    const fs::path file = entry.path() / "store.db";
    if (!fs::exists(file, ignored)) continue;
    if (!main) {
      PLANISH_TRY(main, store::Store::open(store));
    }
    PLANISH_CHECK(main->merge(file));
    fs::remove_all(entry.path(), ignored);
  }
  fs::remove(worker_stores, ignored);
  return {};
}

/// `worker_stores`: where the workers of a cluster store; empty: all in one store.
Result<SuiteSettings> settings_of(const SearchOptions& o, const fs::path& worker_stores) {
  SuiteSettings out;
  PLANISH_CHECK(check_target(o.target));
  PLANISH_CHECK(check_accuracy(o.accuracy));
  PLANISH_TRY(out.budget_seconds, parse_duration(o.budget));
  PLANISH_CHECK(parse_limit(o.task_timeout));
  PLANISH_TRY(out.max_seconds, parse_max_time(o.max_time, out.budget_seconds));
  PLANISH_TRY(auto baselines, parse_baselines(o.baselines));
  out.arguments = {"--target",       o.target,
                   "--budget",       o.budget,
                   "--evals",        std::to_string(o.evaluations),
                   "--seed",         std::to_string(o.seed),
                   "--strategy",     o.strategy,
                   "--accuracy",     o.accuracy,
                   "--baselines",    o.baselines,
                   "--task-timeout", o.task_timeout,
                   "--max-time",     o.max_time};
  if (o.models > 0 || coder::approach_from_name(o.strategy))
    return fail("usage", "a suite seats no language models: no process that it starts gets their keys",
                "planish optimize TASK --models N, task by task");
  for (const std::string& coder : o.coders) out.arguments.insert(out.arguments.end(), {"--coder", coder});
  if (o.draws > 0) out.arguments.insert(out.arguments.end(), {"--draws", std::to_string(o.draws)});
  if (o.cold) out.arguments.emplace_back("--cold");
  if (o.memory_check) out.arguments.emplace_back("--memory-check");
  if (!worker_stores.empty()) {
    // SQLite is not for files that several machines write: every worker has a store of its own until the end.
    const fs::path store = worker_stores / worker_placeholder / "store.db";
    out.arguments.insert(out.arguments.end(), {"--store", store.string()});
  } else if (!o.store.empty()) {
    out.arguments.insert(out.arguments.end(), {"--store", store_file(o.store).string()});
  }
  out.text = dump_json({{"target", o.target},
                        {"budget_seconds", out.budget_seconds},
                        {"evaluations", o.evaluations},
                        {"seed", o.seed},
                        {"strategy", o.strategy},
                        {"draws", o.draws},
                        {"coders", o.coders},
                        {"cold", o.cold},
                        {"memory_check", o.memory_check},
                        {"accuracy", o.accuracy},
                        {"baselines", baselines}});
  return out;
}

SuiteJob job_of(const suite::Task& task, const fs::path& out, const SuiteSettings& settings) {
  SuiteJob job;
  job.name = task.name;
  job.folder = out / task.name;
  job.document = job.folder / "result.json";
  auto source = read_file(task.path);
  job.key = dump_json({{"source_sha256", source ? sha256_hex(*source) : ""}, {"settings", settings.text}});
  job.row.task = task.name;
  job.row.path = task.path.string();
  job.row.level = task.level;
  job.row.problem = task.problem;
  job.command = [&settings, path = task.path.string(), folder = job.folder.string()](const std::string&) {
    std::vector<std::string> command = settings.before;
    command.insert(command.end(), {"optimize", path, "--json", "--out", folder});
    command.insert(command.end(), settings.arguments.begin(), settings.arguments.end());
    return command;
  };
  return job;
}

}  // namespace

int suite_verb(const SuiteVerb& options, const Output& output) {
  if (!options.solutions.empty()) return solutions_verb(options, output);
  std::error_code ignored;
  const fs::path out = fs::absolute(options.out.empty() ? fs::path("planish-suite") : fs::path(options.out), ignored);
  const fs::path worker_stores = options.ray.empty() ? fs::path() : out / ".stores";
  auto settings = settings_of(options.search, worker_stores);
  if (!settings) return output.error(settings.error());
  settings->before = options.settings;
  auto folder = existing_file(options.folder, "folder");
  if (!folder) return output.error(folder.error());
  auto tasks = suite::tasks_in(*folder);
  if (!tasks) return output.error(tasks.error());
  if (auto made = make_directories(out); !made) return output.error(made.error());
  const CancelToken cancel = watch_interrupts();
  suite::SuiteFacts facts;
  facts.folder = folder->string();
  facts.settings = settings->text;
  SuiteWork work;
  for (const suite::Task& task : *tasks) work.jobs.push_back(job_of(task, out, *settings));
  if (auto chosen = choose_jobs(work.jobs, options.choose); !chosen) return output.error(chosen.error());
  if (options.ray.empty()) work.devices = devices_for(options.devices, options.search.target);
  work.workers = options.workers;
  work.ray = options.ray;
  work.target = options.search.target;
  work.task_timeout = parse_limit(options.search.task_timeout).value_or(0);
  work.job_seconds = settings->max_seconds > 0 ? settings->max_seconds + hang_seconds : 0;
  work.resume = options.resume;
  work.stop_at_first = options.stop_at_first;
  // Rewritten after each, so that a killed suite leaves what it had.
  work.save = [&](const std::vector<suite::Row>& rows) { return save_suite(out, rows, facts); };
  auto rows = work_off(work, output, cancel);
  if (!rows) return output.error(rows.error());
  if (!worker_stores.empty()) {
    if (auto merged = merge_stores(worker_stores, store_file(options.search.store)); !merged)
      return output.error(merged.error());
  }
  output.result(*rows, "suite", suite::suite_json(*rows, facts), suite::suite_table(*rows));
  if (cancel.cancelled()) {
    output.next({"suite", options.folder, "--out", out.string(), "--resume"});
    return exit_code::interrupted;
  }
  output.say("report: " + (out / "suite.html").string());
  if (stopped_at_first(work, *rows, output)) return exit_code::none_found;
  output.next({"runs"});
  const bool all_failed = std::ranges::all_of(*rows, [](const suite::Row& row) { return row.outcome == "failed"; });
  return all_failed ? exit_code::none_found : exit_code::success;
}

}  // namespace planish::cli
