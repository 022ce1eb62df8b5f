#include "environment/board.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"

namespace planish::environment {
namespace {

/// Of a queue's beginning so many are looked at for a task that is warm, and nobody is passed over more often.
constexpr std::size_t looked_at = 16;

std::string drawn_id() {
  std::uint64_t words[2] = {};
  (void)!::getrandom(words, sizeof words, 0);
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

double seconds_from(TimePoint since, TimePoint now) {
  return std::chrono::duration<double>(now - since).count();
}

}  // namespace

std::string_view name(Stage stage) {
  switch (stage) {
    case Stage::queued:
      return "queued";
    case Stage::running:
      return "running";
    case Stage::done:
      break;
  }
  return "done";
}

Board::Board(BoardOptions options, Clock& clock)
    : options_(options),
      clock_(clock),
      queues_(options.devices),
      running_(options.devices, 0),
      last_task_(options.devices) {}

Result<std::string> Board::submit(Submission submission) {
  std::string digest = sha256_hex(submission.completion);
  const std::scoped_lock lock(mutex_);
  if (const auto known = entries_.find(submission.id); known != entries_.end()) {
    if (known->second->report.task == submission.task && known->second->digest == digest) return known->first;
    return fail("id_taken", fmt::format("`{}` is the id of another submission", submission.id),
                "leave the id out, or draw one at random");
  }
  if (closed_) return fail("stopping", "the endpoint is stopping", "ask another one, or later");
  // The least loaded one; where two are, the one that was last given this task.
  const auto load = [&](std::size_t device) {
    return 2 * (queues_[device].size() + running_[device]) + (last_task_[device] == submission.task ? 0 : 1);
  };
  std::size_t device = 0;
  for (std::size_t i = 1; i < queues_.size(); ++i) {
    if (load(i) < load(device)) device = i;
  }
  if (queues_[device].size() >= options_.queue) {
    ++refused_;
    return fail("queue_full", fmt::format("{} submissions are waiting already", queues_[device].size()),
                "come again when Retry-After is over");
  }
  auto entry = std::make_shared<Entry>();
  if (submission.id.empty()) submission.id = drawn_id();
  entry->report.id = submission.id;
  entry->report.task = submission.task;
  entry->digest = std::move(digest);
  entry->device = device;
  entry->since = clock_.now();
  last_task_[device] = submission.task;
  entry->submission = std::move(submission);
  entries_[entry->report.id] = entry;
  queues_[device].push_back(entry);
  ++submitted_;
  arrived_.notify_all();
  return entry->report.id;
}

bool Board::watch(const std::string& id, TimePoint deadline, Watcher watcher) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  Entry& entry = *found->second;
  if (entry.report.stage != Stage::done && deadline > clock_.now()) {
    entry.watchers.emplace_back(deadline, std::move(watcher));
    return true;
  }
  const Report report = report_of(entry);
  lock.unlock();
  watcher(report);
  return true;
}

void Board::tick() {
  Told told;
  {
    const std::scoped_lock lock(mutex_);
    const TimePoint now = clock_.now();
    for (const auto& [id, entry] : entries_) {
      for (auto& [deadline, watcher] : entry->watchers) {
        if (deadline <= now) told.emplace_back(std::move(watcher), report_of(*entry));
      }
      std::erase_if(entry->watchers, [now](const auto& one) { return one.first <= now; });
    }
  }
  tell(std::move(told));
}

int Board::retry_seconds() const {
  const std::scoped_lock lock(mutex_);
  const double each = finished_ > 0 ? judged_seconds_ / static_cast<double>(finished_) : 5;
  // When one place is likely to be free.
  return static_cast<int>(std::clamp(std::ceil(each / static_cast<double>(queues_.size())), 1.0, 60.0));
}

std::shared_ptr<Board::Entry> Board::next_of(Queue& queue, const std::deque<std::string>& warm) {
  auto taken = queue.begin();
  if (queue.front()->passed_over < static_cast<int>(looked_at)) {
    const auto end = queue.begin() + static_cast<std::ptrdiff_t>(std::min(queue.size(), looked_at));
    const auto found = std::find_if(
        queue.begin(), end, [&](const auto& one) { return std::ranges::find(warm, one->report.task) != warm.end(); });
    if (found != end) taken = found;
  }
  for (auto before = queue.begin(); before != taken; ++before) ++(*before)->passed_over;
  auto entry = *taken;
  queue.erase(taken);
  return entry;
}

std::optional<Board::Work> Board::take(std::size_t device, const std::deque<std::string>& warm) {
  std::unique_lock lock(mutex_);
  while (true) {
    Queue* queue = &queues_[device];
    if (queue->empty()) queue = &*std::ranges::max_element(queues_, {}, &Queue::size);
    if (!queue->empty()) {
      const auto entry = next_of(*queue, warm);
      entry->device = device;
      entry->report.stage = Stage::running;
      entry->report.queued_seconds += seconds_from(entry->since, clock_.now());
      entry->since = clock_.now();
      ++entry->report.attempts;
      ++running_[device];
      return Work{entry->report.id, entry->submission};
    }
    // What runs elsewhere may come back.
    if (closed_ && std::ranges::all_of(running_, [](std::size_t n) { return n == 0; })) return std::nullopt;
    arrived_.wait(lock);
  }
}

void Board::finish(std::size_t device, const std::string& id, Grade grade) {
  Told told;
  {
    const std::scoped_lock lock(mutex_);
    Entry& entry = *entries_.at(id);
    --running_[device];
    entry.report.judged_seconds += seconds_from(entry.since, clock_.now());
    if (doubtful(grade) && entry.report.attempts < options_.attempts) {
      ++retried_;
      entry.report.stage = Stage::queued;
      entry.since = clock_.now();
      queues_[device].push_front(entries_.at(id));
    } else {
      settle(entry, std::move(grade), told);
    }
    arrived_.notify_all();
  }
  tell(std::move(told));
}

void Board::settle(Entry& entry, Grade grade, Told& told) {
  ++finished_;
  ++outcomes_[grade.judged() ? grade.outcome : "not_judged"];
  const double latency = entry.report.queued_seconds + entry.report.judged_seconds;
  latency_seconds_ += latency;
  judged_seconds_ += entry.report.judged_seconds;
  const auto bucket = std::ranges::lower_bound(limits, latency) - limits.begin();
  ++latencies_[static_cast<std::size_t>(bucket)];
  entry.report.stage = Stage::done;
  entry.submission.completion = {};
  entry.report.grade = std::make_shared<const Grade>(std::move(grade));
  for (auto& [deadline, watcher] : entry.watchers) told.emplace_back(std::move(watcher), report_of(entry));
  entry.watchers.clear();
  done_.push_back(entry.report.id);
  while (done_.size() > options_.kept) {
    entries_.erase(done_.front());
    done_.pop_front();
  }
}

Report Board::report_of(const Entry& entry) const {
  Report out = entry.report;
  if (out.stage == Stage::queued) {
    const Queue& queue = queues_[entry.device];
    out.ahead = static_cast<std::size_t>(
        std::ranges::find_if(queue, [&](const auto& one) { return one.get() == &entry; }) - queue.begin());
  }
  return out;
}

void Board::tell(Told told) {
  for (auto& [watcher, report] : told) watcher(report);
}

void Board::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  arrived_.notify_all();
}

void Board::abandon() {
  Told told;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    options_.attempts = 1;  // what runs now and is in doubt stays so
    for (Queue& queue : queues_) {
      for (const auto& entry : queue) {
        Grade grade =
            not_judged({"stopped", "the endpoint was stopped before it was judged", {}, "hand it in again"}, {});
        entry->report.queued_seconds += seconds_from(entry->since, clock_.now());
        settle(*entry, std::move(grade), told);
      }
      queue.clear();
    }
    arrived_.notify_all();
  }
  tell(std::move(told));
}

bool Board::closed() const {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

bool Board::idle() const {
  const std::scoped_lock lock(mutex_);
  return std::ranges::all_of(queues_, &Queue::empty) &&
         std::ranges::all_of(running_, [](std::size_t n) { return n == 0; });
}

std::string Board::metrics() const {
  const std::scoped_lock lock(mutex_);
  std::string out;
  const auto add = [&out](std::string_view type, std::string_view metric, std::string_view help) {
    out += fmt::format("# HELP planish_{} {}\n# TYPE planish_{} {}\n", metric, help, metric, type);
  };
  add("counter", "submissions_total", "Submissions that were taken.");
  out += fmt::format("planish_submissions_total {}\n", submitted_);
  add("counter", "refused_total", "Submissions that were refused because a queue was full.");
  out += fmt::format("planish_refused_total {}\n", refused_);
  add("counter", "retried_total", "Submissions that were judged once more because their judging was in doubt.");
  out += fmt::format("planish_retried_total {}\n", retried_);
  add("counter", "grades_total", "Grades by outcome.");
  for (const auto& [outcome, count] : outcomes_)
    out += fmt::format("planish_grades_total{{outcome=\"{}\"}} {}\n", outcome, count);
  add("gauge", "queued", "Submissions that wait, by device.");
  for (std::size_t i = 0; i < queues_.size(); ++i)
    out += fmt::format("planish_queued{{device=\"{}\"}} {}\n", i, queues_[i].size());
  add("gauge", "running", "Submissions that are being judged, by device.");
  for (std::size_t i = 0; i < running_.size(); ++i)
    out += fmt::format("planish_running{{device=\"{}\"}} {}\n", i, running_[i]);
  add("histogram", "latency_seconds", "From taking a submission to its grade.");
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    below += latencies_[i];
    out += fmt::format("planish_latency_seconds_bucket{{le=\"{:g}\"}} {}\n", limits[i], below);
  }
  out += fmt::format("planish_latency_seconds_bucket{{le=\"+Inf\"}} {}\n", finished_);
  out += fmt::format("planish_latency_seconds_sum {}\nplanish_latency_seconds_count {}\n", latency_seconds_, finished_);
  return out;
}

}  // namespace planish::environment
