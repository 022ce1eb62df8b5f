#include "cli/suite_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/owned_folder.h"
#include "cli/ray_pool.h"
#include "cli/station.h"
#include "cli/suite_progress.h"
#include "suite/checks.h"
#include "suite/choice.h"
#include "suite/headline.h"

namespace planish::cli {
namespace {

namespace fs = std::filesystem;

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

suite::Row run_job(const SuiteJob& job, double job_seconds, Workplace& place, const CancelToken& cancel) {
  std::error_code ignored;
  fs::remove(job.document, ignored);
  fs::remove(job.folder / "suite-entry.json", ignored);
  const auto ended = place.run(job.command(place.name()), job_seconds, cancel);
  if (!ended)
    return suite::failed_row(job.name, std::string(ended.error().kind.name()), ended.error().message,
                             ended.error().hint);
  auto row = suite::row_from_document(ended->document);
  if (!row) {
    return suite::failed_row(job.name, "crash",
                             fmt::format("{} gave no result document ({})", ended->verb, ended->status.text()));
  }
  if (ended->interrupted && row->outcome == "failed") row->outcome = "interrupted";
  if (job.keep_output && finished(*row)) {
    if (auto kept = write_file(job.document, ended->document); !kept)
      return suite::failed_row(job.name, std::string(kept.error().kind.name()), kept.error().message,
                               kept.error().hint);
  }
  return std::move(*row);
}

/// The suite while it runs, shared by the stations.
class Progressing {
 public:
  Progressing(const SuiteWork& work, SuiteProgress& progress) : work_(work), progress_(progress) {}

  /// Takes jobs until none is left, or until somebody interrupts. `beside_others`: what memory does not suffice for is
  /// put off.
  Status run(Workplace& place, bool beside_others, const CancelToken& cancel) {
    while (!cancel.cancelled()) {
      const auto i = take(beside_others);
      if (!i) return {};
      const SuiteJob& job = work_.jobs[*i];
      auto before = work_.resume && job.runs ? finished_before(job) : fail("changed", "");
      suite::Row row = job.row;
      if (before) {
        row = std::move(*before);
      } else if (job.runs) {
        progress_.begins(*i, job.name, place);
        row = run_job(job, work_.job_seconds, place, cancel);
        row.device = place.device();
        if (beside_others && row.outcome == "failed" && row.kind == "out_of_memory") {
          put_off(*i);
          continue;
        }
      }
      PLANISH_CHECK(done(*i, completed(std::move(row), job.row)));
    }
    return {};
  }

  bool has_put_off() const { return !put_off_.empty(); }

  /// In the order of the jobs.
  std::vector<suite::Row> rows() const {
    std::vector<suite::Row> all;
    for (const auto& [i, row] : done_) all.push_back(row);
    return all;
  }

 private:
  std::optional<std::size_t> take(bool beside_others) {
    const std::scoped_lock lock(mutex_);
    if (stopped_) return std::nullopt;
    if (next_ < work_.jobs.size()) return next_++;
    if (beside_others || put_off_.empty()) return std::nullopt;
    const std::size_t i = put_off_.front();
    put_off_.pop_front();
    return i;
  }
  void put_off(std::size_t i) {
    const std::scoped_lock lock(mutex_);
    put_off_.push_back(i);
    progress_.puts_off(i, work_.jobs[i].name, "memory does not suffice beside the others: again when they are done");
  }
  Status done(std::size_t i, suite::Row row) {
    const SuiteJob& job = work_.jobs[i];
    const std::scoped_lock lock(mutex_);
    if (job.runs && finished(row))
      PLANISH_CHECK(write_file(job.folder / "suite-entry.json", dump_json({{"of", job.key}})));
    progress_.ends(i, job.name, suite_row_text(row), job.runs && !row.resumed);
    stopped_ = stopped_ || (work_.stop_at_first && suite::is_bad(row));
    done_[i] = std::move(row);
    return work_.save(rows());
  }

  const SuiteWork& work_;
  SuiteProgress& progress_;
  std::mutex mutex_;  ///< of what follows
  std::size_t next_ = 0;
  std::deque<std::size_t> put_off_;  ///< jobs that run again alone
  bool stopped_ = false;
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

Status choose_jobs(std::vector<SuiteJob>& jobs, const std::string& expression) {
  if (expression.empty()) return {};
  PLANISH_TRY(const auto chosen, suite::parse_choice(expression));
  const std::string example = jobs.empty() ? "" : jobs.front().name;
  const std::size_t all = jobs.size();
  std::erase_if(jobs, [&](const SuiteJob& job) { return !chosen(job.name); });
  if (!jobs.empty() || all == 0) return {};
  return fail("usage", fmt::format("-k '{}' chooses none of the {} tasks", expression, all),
              fmt::format("it looks for parts of their names, such as {}", example));
}

bool stopped_at_first(const SuiteWork& work, const std::vector<suite::Row>& rows, const Output& output) {
  if (!work.stop_at_first || std::ranges::none_of(rows, suite::is_bad)) return false;
  if (const std::size_t left = work.jobs.size() - rows.size(); left > 0)
    output.say(fmt::format("stopped at the first failure: {} of {} tasks were not begun", left, work.jobs.size()));
  return true;
}

Result<std::vector<suite::Row>> work_off(const SuiteWork& work, const Output& output, const CancelToken& cancel) {
  PLANISH_TRY(const auto folder, OwnedFolder::create("planish-ev-"));
  StationOptions options;
  options.task_timeout = work.task_timeout;
  options.kept_tasks = 1;  // answers to one task stand together
  std::vector<std::unique_ptr<Workplace>> places;
  std::unique_ptr<RayPool> pool;
  if (work.ray.empty()) {
    for (auto& station : stations_in(folder.path(), work.devices, work.workers, options))
      places.push_back(std::move(station));
  } else {
    PLANISH_TRY(pool, RayPool::start({work.ray, work.target, work.workers, options}, output));
    // As many as may ever be at work: each waits until the cluster has a place for its command.
    constexpr std::size_t most_places = 256;
    for (std::size_t i = 0; i < std::min(most_places, work.jobs.size()); ++i) places.push_back(pool->place());
  }
  return work_off_at(std::move(places), work, output, cancel);
}

Result<std::vector<suite::Row>> work_off_at(std::vector<std::unique_ptr<Workplace>> places, const SuiteWork& work,
                                            const Output& output, const CancelToken& cancel) {
  const bool none = output.quiet || output.said != nullptr;
  SuiteProgress progress(LiveLines::detect(none), work.jobs.size(), places.size(), cancel);
  Progressing progressing(work, progress);
  const auto run = [&](bool beside_others) {
    std::vector<std::future<Status>> working;
    for (const auto& place : places) {
      working.push_back(
          std::async(std::launch::async, [&, p = place.get()] { return progressing.run(*p, beside_others, cancel); }));
    }
    Status all;
    for (auto& one : working) {
      auto ended = one.get();
      if (all && !ended) all = std::move(ended);
    }
    return all;
  };
  // A cluster has its own ways to share devices.
  const bool shared = work.ray.empty() && work.workers > 1 && places.size() > 1;
  PLANISH_CHECK(run(shared));
  if (shared && progressing.has_put_off() && !cancel.cancelled()) {
    // One for each device stays; the others give up what their evaluators keep there.
    places.resize(std::max<std::size_t>(1, places.size() / static_cast<std::size_t>(work.workers)));
    PLANISH_CHECK(run(false));
  }
  return progressing.rows();
}

}  // namespace planish::cli
