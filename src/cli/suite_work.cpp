#include "cli/suite_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/owned_folder.h"
#include "base/subprocess.h"
#include "cli/document_in.h"
#include "evaluate/client.h"
#include "suite/headline.h"

namespace planish::cli {
namespace {

namespace fs = std::filesystem;

/// A limit for those that have none.
constexpr double unlimited_seconds = 7 * 24 * 3600;
/// What an interrupted command gets to end by itself.
constexpr double farewell_seconds = 300;

bool finished(const suite::Row& row) {
  return row.outcome == "improved" || row.outcome == "no_improvement" || row.outcome == "verified" ||
         row.outcome == "refused";
}

/// What the suite knows of a row beside what its document says.
suite::Row completed(suite::Row row, const suite::Row& known) {
  row.task = known.task;  // the name of the file is what a reader of the table can find again
  row.path = known.path;
  row.level = known.level;
  row.problem = known.problem;
  row.sample = known.sample;
  row.recorded = known.recorded;
  if (row.solution.empty()) row.solution = known.solution;
  return row;
}

/// What the suite noted when a job had finished: enough to skip it next time.
Result<suite::Row> finished_before(const SuiteJob& job) {
  PLANISH_TRY(auto bytes, read_file(job.folder / "suite-entry.json"));
  PLANISH_TRY(const Json entry, parse_json(bytes, "bad_result", "suite-entry.json"));
  if (!entry.is_object() || entry.value("of", Json()) != job.key) return fail("changed", "another source or settings");
  PLANISH_TRY(auto result, read_file(job.document));
  PLANISH_TRY(auto row, suite::row_from_document(result));
  if (!finished(row)) return fail("changed", "not finished");
  row.resumed = true;
  return row;
}

/// One evaluator of the suite, which stays warm from job to job.
class Station {
 public:
  Station(std::size_t number, std::string device, fs::path socket, double task_timeout)
      : number_(number), device_(std::move(device)), socket_(std::move(socket)), task_timeout_(task_timeout) {}

  std::size_t number() const { return number_; }
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
  std::size_t number_;
  std::string device_;
  fs::path socket_;
  double task_timeout_;
  std::unique_ptr<EvaluatorClient> evaluator_;  ///< as long as it is connected it stays
};

suite::Row run_job(const SuiteJob& job, double job_seconds, Station& station, const CancelToken& cancel) {
  std::error_code ignored;
  fs::remove(job.document, ignored);
  fs::remove(job.folder / "suite-entry.json", ignored);
  SpawnOptions options;
  options.command = job.command(station.number());
  const std::string verb = options.command.front();
  options.command.insert(options.command.begin(), executable_path().string());
  options.whole_output = true;
  options.env = station.environment();
  auto child = Subprocess::spawn(options);
  if (!child) return suite::failed_row(job.name, child.error().kind, child.error().message);
  const TimePoint deadline = deadline_in(job_seconds > 0 ? job_seconds : unlimited_seconds);
  auto ended = child->wait(deadline, &cancel);
  const bool cancelled = !ended && ended.error().kind == "cancelled";
  if (cancelled) {
    // The child ends as it would on a terminal: cleanly, with what it has.
    child->kill(SIGINT);
    ended = child->wait(std::min(deadline, deadline_in(farewell_seconds)));
  }
  if (!ended) {
    child->kill();
    return suite::failed_row(job.name, "hang", fmt::format("{} did not end", verb));
  }
  const std::string document = document_in(child->output_tail());
  auto row = suite::row_from_document(document);
  if (!row)
    return suite::failed_row(job.name, "crash", fmt::format("{} gave no result document ({})", verb, ended->text()));
  if (cancelled && row->outcome == "failed") row->outcome = "interrupted";
  if (job.keep_output && finished(*row)) {
    if (auto kept = write_file(job.document, document); !kept)
      return suite::failed_row(job.name, kept.error().kind, kept.error().message);
  }
  return std::move(*row);
}

/// The suite while it runs, shared by the stations.
class Progressing {
 public:
  Progressing(const SuiteWork& work, const Output& output) : work_(work), output_(output) {}

  /// Takes jobs until none is left, or until somebody interrupts.
  Status run(Station& station, const CancelToken& cancel) {
    while (!cancel.cancelled()) {
      const auto i = take();
      if (!i) return {};
      const SuiteJob& job = work_.jobs[*i];
      auto before = work_.resume && job.runs ? finished_before(job) : fail("changed", "");
      suite::Row row = job.row;
      if (before) {
        row = std::move(*before);
      } else if (job.runs) {
        say(*i, fmt::format("{}{}", job.name, station.device().empty() ? "" : " on " + station.device()));
        row = run_job(job, work_.job_seconds, station, cancel);
        row.device = station.device();
      }
      PLANISH_CHECK(done(*i, completed(std::move(row), job.row)));
    }
    return {};
  }

  /// In the order of the jobs.
  std::vector<suite::Row> rows() const {
    std::vector<suite::Row> all;
    for (const auto& [i, row] : done_) all.push_back(row);
    return all;
  }

 private:
  std::optional<std::size_t> take() {
    const std::scoped_lock lock(mutex_);
    if (next_ == work_.jobs.size()) return std::nullopt;
    return next_++;
  }
  void say(std::size_t i, const std::string& text) {
    const std::scoped_lock lock(mutex_);
    note(i, text);
  }
  void note(std::size_t i, const std::string& text) const {
    if (output_.quiet) return;
    fmt::print(stderr, "[{}/{}] {}\n", i + 1, work_.jobs.size(), text);
    std::fflush(stderr);
  }
  Status done(std::size_t i, suite::Row row) {
    const SuiteJob& job = work_.jobs[i];
    const std::scoped_lock lock(mutex_);
    if (job.runs && finished(row))
      PLANISH_CHECK(write_file(job.folder / "suite-entry.json", dump_json({{"of", job.key}})));
    note(i, fmt::format("{}: {}", job.name, suite_row_text(row)));
    done_[i] = std::move(row);
    return work_.save(rows());
  }

  const SuiteWork& work_;
  const Output& output_;
  std::mutex mutex_;  ///< of what follows
  std::size_t next_ = 0;
  std::map<std::size_t, suite::Row> done_;
};

}  // namespace

std::string suite_row_text(const suite::Row& row) {
  std::string out = row.outcome;
  if (row.headline) out += ", " + suite::headline_text(row.headline);
  if (row.outcome == "refused") out += fmt::format(": {}: {}", row.verdict, row.message);
  if (row.outcome == "failed") out += ": " + row.message;
  if (row.resumed) out += " (before)";
  return out;
}

Result<std::vector<suite::Row>> work_off(const SuiteWork& work, const Output& output, const CancelToken& cancel) {
  PLANISH_TRY(const auto folder, OwnedFolder::create("planish-ev-"));
  std::vector<std::unique_ptr<Station>> stations;
  for (int worker = 0; worker < std::max(1, work.workers); ++worker) {
    for (const std::string& device : work.devices) {
      const std::size_t number = stations.size();
      stations.push_back(std::make_unique<Station>(number, device, folder.path() / fmt::format("evaluator-{}", number),
                                                   work.task_timeout));
    }
  }
  Progressing progressing(work, output);
  std::vector<std::future<Status>> working;
  for (const auto& station : stations) {
    working.push_back(std::async(std::launch::async, [&, s = station.get()] { return progressing.run(*s, cancel); }));
  }
  Status all;
  for (auto& one : working) {
    auto ended = one.get();
    if (all && !ended) all = std::move(ended);
  }
  PLANISH_CHECK(all);
  return progressing.rows();
}

}  // namespace planish::cli
