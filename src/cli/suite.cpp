#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/owned_folder.h"
#include "base/subprocess.h"
#include "cli/devices.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/result_document.h"
#include "cli/verbs.h"
#include "evaluate/client.h"
#include "suite/row.h"
#include "suite/score.h"

namespace planish::cli {
namespace {

namespace fs = std::filesystem;

/// A task that goes on for so long beyond its --max-time hangs.
constexpr double patience_seconds = 300;
/// The same for one that may take any time.
constexpr double unlimited_seconds = 7 * 24 * 3600;

struct Settings {
  std::vector<std::string> arguments;  ///< for `optimize`
  std::string text;                    ///< JSON; what must be equal for a finished task to be skipped
  double budget_seconds = 0, max_seconds = 0;
};

Result<Settings> settings_of(const SearchOptions& o) {
  Settings out;
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

/// One device of the suite, and the evaluator that stays warm on it from task to task.
class Station {
 public:
  Station(std::string device, fs::path socket, double task_timeout)
      : device_(std::move(device)), socket_(std::move(socket)), task_timeout_(task_timeout) {}

  const std::string& device() const { return device_; }
  /// What a command of this device needs in its environment. Starts the evaluator where there is none (any more); where
  /// it cannot be started each command starts its own.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment() {
    std::vector<std::pair<std::string, std::optional<std::string>>> out;
    if (!device_.empty()) out.emplace_back("CUDA_VISIBLE_DEVICES", device_);
    if (!evaluator_ || !EvaluatorClient::connect(socket_)) {
      evaluator_.reset();
      auto started = EvaluatorClient::spawn(executable_path(), socket_, 60,
                                            {"--task-timeout", fmt::format("{}", task_timeout_), "--ready", "1"}, out);
      if (started) evaluator_ = std::move(*started);
    }
    if (evaluator_) out.emplace_back("PLANISH_EVALUATOR", socket_.string());
    return out;
  }

 private:
  std::string device_;
  fs::path socket_;
  double task_timeout_;
  std::unique_ptr<EvaluatorClient> evaluator_;  ///< as long as it is connected it stays
};

suite::Row run_task(const fs::path& task, const fs::path& folder, const Settings& settings, Station& station,
                    const CancelToken& cancel) {
  const std::string name = task.stem().string();
  std::error_code ignored;
  fs::remove(folder / "result.json", ignored);
  fs::remove(folder / "suite-entry.json", ignored);
  SpawnOptions options;
  options.command = {
      executable_path().string(), "optimize", task.string(), "--json", "--quiet", "--out", folder.string()};
  options.command.insert(options.command.end(), settings.arguments.begin(), settings.arguments.end());
  options.whole_output = true;
  options.env = station.environment();
  auto child = Subprocess::spawn(options);
  if (!child) return suite::failed_row(name, child.error().kind, child.error().message);
  const TimePoint deadline =
      deadline_in(settings.max_seconds > 0 ? settings.max_seconds + patience_seconds : unlimited_seconds);
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

/// The suite while it runs, shared by the stations.
struct Progressing {
  const fs::path &folder, &out;
  const std::vector<fs::path>& tasks;
  const Settings& settings;
  const Output& output;
  std::mutex mutex;  ///< of what follows
  std::size_t next = 0;
  std::map<std::size_t, suite::Row> done;

  /// In the order of the tasks.
  std::vector<suite::Row> rows() const {
    std::vector<suite::Row> all;
    for (const auto& [i, row] : done) all.push_back(row);
    return all;
  }
};

/// Takes tasks until none is left, or until somebody interrupts. Rewrites the suite's document after each, so that a
/// killed suite leaves what it had.
Status work_off(Progressing& suite, Station& station, bool resume, const CancelToken& cancel) {
  while (!cancel.cancelled()) {
    std::size_t i = 0;
    {
      const std::scoped_lock lock(suite.mutex);
      if (suite.next == suite.tasks.size()) return {};
      i = suite.next++;
    }
    const fs::path& task = suite.tasks[i];
    const fs::path own = suite.out / task.stem();
    auto source = read_file(task);
    const std::string sha256 = source ? sha256_hex(*source) : std::string();
    suite::Row row;
    auto before = resume ? finished_before(own, sha256, suite.settings) : fail("changed", "");
    if (before) {
      row = std::move(*before);
    } else {
      {
        const std::scoped_lock lock(suite.mutex);
        note(suite.output, fmt::format("[{}/{}] {}{}", i + 1, suite.tasks.size(), task.stem().string(),
                                       station.device().empty() ? "" : fmt::format(" on {}", station.device())));
      }
      row = run_task(task, own, suite.settings, station, cancel);
      row.device = station.device();
    }
    // The name of the file is what a reader of the table can find again.
    row.task = task.stem().string();
    row.path = task.string();
    const std::scoped_lock lock(suite.mutex);
    if (row.outcome == "improved" || row.outcome == "no_improvement") {
      const Json entry = {{"source_sha256", sha256}, {"settings", suite.settings.text}};
      PLANISH_CHECK(write_file(own / "suite-entry.json", dump_json(entry)));
    }
    note(suite.output, fmt::format("[{}/{}] {}: {}{}{}", i + 1, suite.tasks.size(), row.task, row.outcome,
                                   row.headline ? ", " + suite::headline_text(row.headline) : "",
                                   row.resumed               ? " (before)"
                                   : row.outcome == "failed" ? ": " + row.message
                                                             : ""));
    suite.done[i] = std::move(row);
    PLANISH_CHECK(write_file(suite.out / "suite.json",
                             suite::suite_json(suite.rows(), suite.folder.string(), suite.settings.text)));
  }
  return {};
}

/// One thread a device. The first error that keeps results from being written ends it all.
Status run_all(Progressing& suite, const SuiteVerb& options, const CancelToken& cancel) {
  PLANISH_TRY(const auto folder, OwnedFolder::create("planish-ev-"));
  PLANISH_TRY(const double task_timeout, parse_limit(options.search.task_timeout));
  std::vector<std::unique_ptr<Station>> stations;
  for (const std::string& device : devices_for(options.devices, options.search.target)) {
    const auto socket = folder.path() / fmt::format("evaluator-{}", stations.size());
    stations.push_back(std::make_unique<Station>(device, socket, task_timeout));
  }
  std::vector<std::future<Status>> working;
  for (const auto& station : stations) {
    working.push_back(
        std::async(std::launch::async, [&, s = station.get()] { return work_off(suite, *s, options.resume, cancel); }));
  }
  Status all;
  for (auto& one : working) {
    auto ended = one.get();
    if (all && !ended) all = std::move(ended);
  }
  return all;
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
  Progressing progressing{*folder, out, *tasks, *settings, output, {}, {}, {}};
  if (auto ran = run_all(progressing, options, cancel); !ran) return output.error(ran.error());
  const std::vector<suite::Row> rows = progressing.rows();
  output.result(suite::suite_json(rows, folder->string(), settings->text), suite::suite_table(rows));
  if (cancel.cancelled()) return exit_code::interrupted;
  const bool all_failed = std::ranges::all_of(rows, [](const suite::Row& row) { return row.outcome == "failed"; });
  return all_failed ? exit_code::none_found : exit_code::success;
}

}  // namespace planish::cli
