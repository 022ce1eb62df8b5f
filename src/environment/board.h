#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "environment/grade.h"

namespace planish::environment {

/// What somebody wants judged.
struct Submission {
  std::string id;    ///< the client's name for it; empty: one is drawn
  std::string task;  ///< name, equal for equal tasks
  std::filesystem::path task_path;
  std::string completion;
};

enum class Stage : std::uint8_t { queued, running, done };
std::string_view name(Stage stage);

/// How a submission stands.
struct Report {
  std::string id, task;
  Stage stage = Stage::queued;
  std::size_t ahead = 0;  ///< while it is queued: submissions that come before it on its device
  int attempts = 0;
  double queued_seconds = 0, judged_seconds = 0;
  std::shared_ptr<const Grade> grade;  ///< once it is done
};

struct BoardOptions {
  std::size_t devices = 1;
  std::size_t queue = 256;  ///< submissions that may wait for a device
  std::size_t kept = 4096;  ///< grades that can still be asked for; older ones are forgotten
  int attempts = 2;         ///< for a submission whose judging is in doubt
};

/// Submissions on their way from clients to stations and back: a queue for each device, with work taken over from the
/// longest where one is empty. Thread-safe. Whoever takes one returns it: nothing is forgotten before it is graded.
class Board {
 public:
  Board(BoardOptions options, Clock& clock);

  /// Called once with the report: when it is done, or when the deadline has passed, from whatever thread notices.
  using Watcher = std::function<void(const Report&)>;

  /// The id. One that is known already joins what it names, where task and completion are the same. Kinds: `queue_full`
  /// (retry_seconds() says when to come again), `stopping`, `id_taken`.
  Result<std::string> submit(Submission submission);
  /// Nothing is known of it: false.
  bool watch(const std::string& id, TimePoint deadline, Watcher watcher);
  /// Tells watchers whose deadline has passed. To be called a few times a second.
  void tick();
  /// When a refused client should come again.
  int retry_seconds() const;

  struct Work {
    std::string id;
    Submission submission;
  };
  /// The next submission for a device; waits for one. One of a task in `warm` may come before others, though none
  /// waits for long because of that. Nothing: the board is closed, and this device has nothing more to do.
  std::optional<Work> take(std::size_t device, const std::deque<std::string>& warm);
  /// What it was found to be. In doubt it is queued once more, in front.
  void finish(std::size_t device, const std::string& id, Grade grade);

  /// Takes nothing new; what is queued is still worked off.
  void close();
  /// What is queued is not judged any more (`stopped`).
  void abandon();
  bool closed() const;
  /// Whether nothing is queued or running.
  bool idle() const;

  /// In the text form of Prometheus.
  std::string metrics() const;

 private:
  struct Entry {
    Submission submission;  ///< once it is done without its completion
    std::string digest;     ///< of the completion
    Report report;
    std::size_t device = 0;
    int passed_over = 0;
    TimePoint since;  ///< of its stage
    std::vector<std::pair<TimePoint, Watcher>> watchers;
  };
  using Queue = std::deque<std::shared_ptr<Entry>>;
  using Told = std::vector<std::pair<Watcher, Report>>;

  Report report_of(const Entry& entry) const;
  void settle(Entry& entry, Grade grade, Told& told);
  std::shared_ptr<Entry> next_of(Queue& queue, const std::deque<std::string>& warm);
  static void tell(Told told);

  BoardOptions options_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::deque<std::string> done_;  ///< ids, the oldest in front
  std::vector<Queue> queues_;
  std::vector<std::size_t> running_;
  std::vector<std::string> last_task_;  ///< of each device's queue
  bool closed_ = false;

  // What metrics() says.
  static constexpr std::array<double, 8> limits{0.5, 1, 2, 5, 10, 30, 60, 300};
  std::map<std::string, std::uint64_t> outcomes_;
  std::array<std::uint64_t, limits.size() + 1> latencies_{};
  double latency_seconds_ = 0, judged_seconds_ = 0;
  std::uint64_t submitted_ = 0, refused_ = 0, retried_ = 0, finished_ = 0;
};

}  // namespace planish::environment
