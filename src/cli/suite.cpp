#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/result_document.h"
#include "cli/verbs.h"
#include "suite/row.h"
#include "suite/score.h"

namespace planish::cli {
namespace {

namespace fs = std::filesystem;

/// Beyond its budget a task captures, compiles baselines and verifies; one that takes longer than this hangs.
constexpr double patience_seconds = 3600;

struct Settings {
  std::vector<std::string> arguments;  ///< for `optimize`
  std::string text;                    ///< JSON; what must be equal for a finished task to be skipped
  double budget_seconds = 0;
};

Result<Settings> settings_of(const SearchOptions& o) {
  Settings out;
  PLANISH_CHECK(check_target(o.target));
  PLANISH_CHECK(check_accuracy(o.accuracy));
  PLANISH_TRY(out.budget_seconds, parse_duration(o.budget));
  PLANISH_CHECK(parse_limit(o.task_timeout));
  PLANISH_TRY(auto baselines, parse_baselines(o.baselines));
  out.arguments = {"--target",       o.target,
                   "--budget",       o.budget,
                   "--evals",        std::to_string(o.evaluations),
                   "--seed",         std::to_string(o.seed),
                   "--strategy",     o.strategy,
                   "--accuracy",     o.accuracy,
                   "--baselines",    o.baselines,
                   "--task-timeout", o.task_timeout};
  if (o.draws > 0) out.arguments.insert(out.arguments.end(), {"--draws", std::to_string(o.draws)});
  if (o.cold) out.arguments.emplace_back("--cold");
  if (!o.store.empty()) {
    out.arguments.insert(out.arguments.end(), {"--store", store_file(o.store).string()});
  }
  out.text = dump_json({{"target", o.target},
                        {"budget_seconds", out.budget_seconds},
                        {"evaluations", o.evaluations},
                        {"seed", o.seed},
                        {"strategy", o.strategy},
                        {"draws", o.draws},
                        {"cold", o.cold},
                        {"accuracy", o.accuracy},
                        {"baselines", baselines}});
  return out;
}

Result<std::vector<fs::path>> tasks_of(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (auto it = fs::directory_iterator(folder, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (it->path().extension() == ".py" && !name.starts_with('_') && !name.starts_with('.') &&
        it->is_regular_file(ignored)) {
      out.push_back(it->path());
    }
  }
  if (failed) return std::unexpected(file_error(failed.value(), "read", folder));
  if (out.empty())
    return fail("no_tasks", fmt::format("{} holds no Python files", folder.string()), "name a folder of tasks");
  std::ranges::sort(out);
  return out;
}

/// What the suite noted when a task had finished: enough to skip it next time.
Result<suite::Row> finished_before(const fs::path& folder, const std::string& sha256, const Settings& settings) {
  PLANISH_TRY(auto bytes, read_file(folder / "suite-entry.json"));
  PLANISH_TRY(Json entry, parse_json(bytes, "bad_result", "suite-entry.json"));
  if (!entry.is_object() || entry.value("source_sha256", "") != sha256 ||
      entry.value("settings", "") != settings.text) {
    return fail("changed", "another source or other settings");
  }
  PLANISH_TRY(auto result, read_file(folder / "result.json"));
  PLANISH_TRY(auto row, suite::row_from_document(result));
  if (row.outcome != "improved" && row.outcome != "no_improvement") return fail("changed", "not finished");
  row.resumed = true;
  return row;
}

/// The last line of a child's output that is a JSON document (its stderr may stand around it).
std::string document_in(const std::string& output) {
  std::string found;
  std::size_t at = 0;
  while (at < output.size()) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    if (output[at] == '{') found = output.substr(at, end - at);
    at = end + 1;
  }
  return found;
}

suite::Row run_task(const fs::path& task, const fs::path& folder, const Settings& settings, const CancelToken& cancel) {
  const std::string name = task.stem().string();
  std::error_code ignored;
  fs::remove(folder / "result.json", ignored);
  fs::remove(folder / "suite-entry.json", ignored);
  SpawnOptions options;
  options.command = {
      executable_path().string(), "optimize", task.string(), "--json", "--quiet", "--out", folder.string()};
  options.command.insert(options.command.end(), settings.arguments.begin(), settings.arguments.end());
  options.whole_output = true;
  auto child = Subprocess::spawn(options);
  if (!child) return suite::failed_row(name, child.error().kind, child.error().message);
  const TimePoint deadline = deadline_in(settings.budget_seconds + patience_seconds);
  auto ended = child->wait(deadline, &cancel);
  if (!ended && ended.error().kind == "cancelled") {
    // The child ends as it would on a terminal: cleanly, with what it has.
    child->kill(SIGINT);
    ended = child->wait(deadline);
  }
  if (!ended) {
    child->kill();
    return suite::failed_row(name, "hang", "optimize did not end");
  }
  auto row = suite::row_from_document(document_in(child->output_tail()));
  if (!row) {
    return suite::failed_row(name, "crash", fmt::format("optimize gave no result document ({})", ended->text()));
  }
  return std::move(*row);
}

void note(const Output& output, const std::string& text) {
  if (output.quiet) return;
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

}  // namespace

int suite_verb(const SuiteVerb& options, const Output& output) {
  auto settings = settings_of(options.search);
  if (!settings) return output.error(settings.error());
  auto folder = existing_file(options.folder, "folder");
  if (!folder) return output.error(folder.error());
  auto tasks = tasks_of(*folder);
  if (!tasks) return output.error(tasks.error());
  std::error_code ignored;
  const fs::path out = fs::absolute(options.out.empty() ? fs::path("planish-suite") : fs::path(options.out), ignored);
  if (auto made = make_directories(out); !made) return output.error(made.error());
  const CancelToken cancel = watch_interrupts();
  std::vector<suite::Row> rows;
  for (std::size_t i = 0; i < tasks->size() && !cancel.cancelled(); ++i) {
    const fs::path& task = (*tasks)[i];
    const fs::path own = out / task.stem();
    auto source = read_file(task);
    const std::string sha256 = source ? sha256_hex(*source) : std::string();
    suite::Row row;
    auto before = options.resume ? finished_before(own, sha256, *settings) : fail("changed", "");
    if (before) {
      row = std::move(*before);
    } else {
      note(output, fmt::format("[{}/{}] {}", i + 1, tasks->size(), task.stem().string()));
      row = run_task(task, own, *settings, cancel);
    }
    // The name of the file is what a reader of the table can find again.
    row.task = task.stem().string();
    row.path = task.string();
    if (row.outcome == "improved" || row.outcome == "no_improvement") {
      const Json entry = {{"source_sha256", sha256}, {"settings", settings->text}};
      if (auto kept = write_file(own / "suite-entry.json", dump_json(entry)); !kept) return output.error(kept.error());
    }
    note(output,
         fmt::format(
             "[{}/{}] {}: {}{}{}", i + 1, tasks->size(), row.task, row.outcome,
             row.speedup_best_baseline > 0 ? fmt::format(", {:.2f}x the best baseline", row.speedup_best_baseline) : "",
             row.resumed               ? " (before)"
             : row.outcome == "failed" ? ": " + row.message
                                       : ""));
    rows.push_back(std::move(row));
    // Rewritten after each task, so that a killed suite leaves what it had.
    const std::string document = suite::suite_json(rows, folder->string(), settings->text);
    if (auto kept = write_file(out / "suite.json", document); !kept) return output.error(kept.error());
  }
  output.result(suite::suite_json(rows, folder->string(), settings->text), suite::suite_table(rows));
  if (cancel.cancelled()) return exit_code::interrupted;
  const bool all_failed = std::ranges::all_of(rows, [](const suite::Row& row) { return row.outcome == "failed"; });
  return all_failed ? exit_code::none_found : exit_code::success;
}

}  // namespace planish::cli
