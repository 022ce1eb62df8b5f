#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "backend/backend.h"
#include "base/work_scope.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"
#include "worker/baseline.h"

namespace planish {
namespace {

/// Ends the baseline process at the end of a scope, unless it is kept.
class KeepOrEnd {
 public:
  KeepOrEnd(std::optional<worker::Baseline>& process, bool keep) : process_(process), keep_(keep) {}
  ~KeepOrEnd() {
    if (!keep_) process_.reset();
  }
  KeepOrEnd(const KeepOrEnd&) = delete;
  KeepOrEnd& operator=(const KeepOrEnd&) = delete;

 private:
  std::optional<worker::Baseline>& process_;
  bool keep_;
};

}  // namespace

bool TaskEvaluator::keeps_baseline(const ClaimRequest& request) const {
  // What a candidate has run in measures nothing else. All sets of inputs stay in memory beside everything else.
  return request.more && request.path.empty() && baseline_fits(4, 0.05);
}

bool TaskEvaluator::baseline_fits(double sets, double share) const {
  constexpr double word = 4;
  const double bytes = sets * static_cast<double>(reply_.input_bytes) + word * static_cast<double>(reply_.parameters);
  return device_->facts.memory_bytes > 0 && bytes < share * static_cast<double>(device_->facts.memory_bytes);
}

void TaskEvaluator::begin_baselines() {
  const bool wanted = request_.ahead && compiles(request_.baselines);
  // While it compiles it has one set of inputs (table.py).
  if (!wanted || backend::named(device_->facts.target).on_host || !baseline_fits(1, 0.1)) return;
  auto process = device_->spares.baseline(true);
  if (!process.has_value()) return;  // the claim will say why
  std::vector<std::string> modes = request_.baselines;
  std::erase(modes, "eager");
  auto early = EarlyBaseline::begin(std::move(*process), request_.task, device_->facts.target, request_.accuracy,
                                    std::move(modes), limits_.open);
  if (early.has_value()) early_ = std::move(*early);
}

/// One claim: what ships and the baselines, each prepared in one process and timed in turn.
class TaskEvaluator::Claiming {
 public:
  Claiming(TaskEvaluator& task, const ClaimRequest& request, const std::vector<std::string>& modes)
      : task_(task), request_(request), modes_(modes), on_host_(backend::named(task.device_->facts.target).on_host) {}

  Result<ClaimReply> claim() {
    make_room();
    if (began_early()) {
      PLANISH_CHECK(be_alone());
      take_what_began_early();
    }
    PLANISH_CHECK(start());
    const bool keep = task_.keeps_baseline(request_);
    start_what_comes_next(keep);
    const KeepOrEnd after(task_.baseline_, keep);
    if (!on_host_ && compiles(modes_))
      PLANISH_CHECK(be_alone());  // also where an earlier claim's process is used again
    PLANISH_CHECK(prepare_all());
    if (!ready_.empty()) PLANISH_CHECK(time_all());
    return std::move(reply_);
  }

 private:
  struct Timed {
    std::string name, kind, path;
  };

  DeviceHost& device() const { return *task_.device_; }
  const Limits& limits() const { return task_.limits_; }

  /// The oracle's data would take memory from what is timed.
  void make_room() {
    if (task_.oracle_.has_value() && task_.oracle_->alive()) task_.drop_data(nullptr);
    device().runners.discard(worker::Runner::Kind::torch);
  }

  /// From here on. Once is enough.
  Status be_alone() {
    if (alone_.has_value()) return {};
    PLANISH_TRY(auto measuring, device().turn.measure(task_.reply_.task_name, limits().lock));
    alone_.emplace(std::move(measuring));
    return {};
  }

  bool began_early() const { return task_.early_ != nullptr && !request_.more; }

  /// It begins to use the device.
  void take_what_began_early() {
    const auto early = std::exchange(task_.early_, nullptr);
    const double patience = std::min(limits().baseline, work_seconds_left());
    report_work(fmt::format("compiling on with what began beside the search: at most {:.0f} s", patience));
    auto ready = early->finish(patience);
    if (!ready.has_value()) return;
    task_.baseline_ = std::move(ready->process);
    compiled_ = std::move(ready->seconds);
  }

  /// The process. One that a shorter claim has left imported torch and holds the task already.
  Status start() {
    if (task_.baseline_.has_value() && task_.baseline_->running()) return {};
    task_.baseline_.reset();
    // It becomes the task's once it holds the task: what waits for the device in between may give up.
    PLANISH_TRY(auto process, device().spares.baseline(compiles(modes_)));
    PLANISH_CHECK(task_.off_device([&] { return process.hello(limits().start); }));
    // A mode of torch.compile that tunes itself measures as well: beside another's work it would choose badly. And
    // whoever waits for his turn holds little of the device's memory meanwhile.
    if (!on_host_ && (compiles(modes_) || !task_.baseline_fits(4, 0.05))) PLANISH_CHECK(be_alone());
    PLANISH_CHECK(process.open(task_.request_.task, device().facts.target, task_.request_.accuracy, limits().open));
    task_.baseline_.emplace(std::move(process));
    return {};
  }

  void start_what_comes_next(bool keep) {
    // Should a baseline be what ships, it is proved as well: what the proof needs imports PyTorch while others compile.
    if (!request_.more && compiles(modes_)) {
      device().spares.prepare_oracle();
      device().runners.warm_up_own();
    }
    if (request_.more && !keep && task_.early_ == nullptr) device().spares.prepare(compiles(task_.request_.baselines));
  }

  /// What ships comes before what may have to be given up for lack of time.
  std::vector<Timed> wanted() const {
    std::vector<Timed> out;
    if (!request_.path.empty()) out.push_back({"shipped", "shipped", request_.path});
    for (const std::string& mode : modes_) out.push_back({mode, mode, {}});
    return out;
  }

  Status prepare_all() {
    const std::vector<Timed> all = wanted();
    const double timing_seconds = (request_.max_seconds + 1) * static_cast<double>(all.size());
    for (const Timed& item : all) {
      ClaimTime time;
      time.name = item.name;
      const Result<double> seconds = prepare(item, work_seconds_left() - timing_seconds);
      if (seconds.has_value()) {
        time.compile_seconds = *seconds;
        ready_.push_back(item);
      } else {
        if (is_device_failure(seconds.error())) return task_.device_lost(seconds.error().message);
        time.error = seconds.error();
        if (!task_.baseline_->alive()) PLANISH_CHECK(start_again());
      }
      reply_.times.push_back(std::move(time));
    }
    return {};
  }

  /// Seconds that compiling it took, of the `left` that there are.
  Result<double> prepare(const Timed& item, double left) {
    if (const auto early = compiled_.find(item.kind); early != compiled_.end() && item.name == item.kind)
      return early->second;
    if (left <= 0) return fail("out_of_time", fmt::format("no time was left for {}", item.name));
    auto seconds = task_.baseline_->add(item.name, item.kind, item.path, std::min(limits().baseline, left));
    if (!seconds.has_value() && seconds.error().kind == "out_of_time" && left > limits().baseline)
      seconds.error().kind = "hang";
    return seconds;
  }

  /// One mode took the process with it: a new one, with what was there before.
  Status start_again() {
    compiled_.clear();
    PLANISH_CHECK(start());
    for (const Timed& earlier : ready_)
      PLANISH_CHECK(task_.baseline_->add(earlier.name, earlier.kind, earlier.path, limits().baseline));
    return {};
  }

  Status time_all() {
    std::vector<std::string> names;
    for (const Timed& item : ready_) names.push_back(item.name);
    worker::TimeRequest timing;
    timing.min_runs = request_.min_runs;
    timing.max_runs = request_.max_runs;
    timing.max_seconds = request_.max_seconds;
    device().settle();
    PLANISH_CHECK(be_alone());
    std::unique_lock<std::shared_mutex> still;
    if (on_host_) still = device().pool.stand_still();
    reply_.clocks_before = device().nvml.clocks(device().facts.uuid);
    const double limit = (request_.max_seconds + limits().run) * static_cast<double>(names.size());
    PLANISH_TRY(const auto times, task_.baseline_->time(names, timing, limit));
    reply_.clocks_after = device().nvml.clocks(device().facts.uuid);
    for (ClaimTime& time : reply_.times) {
      const auto found = times.find(time.name);
      if (found == times.end()) {
        if (!time.error.has_value())
          time.error = Error{"protocol", "the baseline gave no time for " + time.name, {}, {}};
        continue;
      }
      if (!found->second.has_value()) {
        if (is_device_failure(found->second.error())) return task_.device_lost(found->second.error().message);
        time.error = found->second.error();
        continue;
      }
      enter(*found->second, time);
    }
    return {};
  }

  static void enter(const worker::Timing& timed, ClaimTime& time) {
    time.median_ms = timed.median_ms;
    time.lo_ms = timed.lo_ms;
    time.hi_ms = timed.hi_ms;
    time.host_us = timed.host_us;
    time.latency_ms = timed.latency_ms;
    time.latency_lo_ms = timed.latency_lo_ms;
    time.latency_hi_ms = timed.latency_hi_ms;
    time.kept_ms = timed.kept_ms;
    time.kept_lo_ms = timed.kept_lo_ms;
    time.kept_hi_ms = timed.kept_hi_ms;
    time.busy = timed.busy;
    time.samples_ms = timed.samples_ms;
  }

  TaskEvaluator& task_;
  const ClaimRequest& request_;
  const std::vector<std::string>& modes_;
  const bool on_host_;
  std::optional<DeviceTurn::Measuring> alone_;
  std::map<std::string, double> compiled_;  ///< before the claim: seconds by mode
  std::vector<Timed> ready_;
  ClaimReply reply_;
};

Result<ClaimReply> TaskEvaluator::claim(const ClaimRequest& request) {
  std::vector<std::string> modes = request.modes;
  if (modes.empty()) modes = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};
  PLANISH_TRY(const auto lock, take_stage());
  const bool may_be_known = request.known && request.path.empty();
  if (const auto found = baselines_.find(modes); may_be_known && found != baselines_.end()) return found->second;
  auto reply = Claiming(*this, request, modes).claim();
  // What returned something wrong would do so again; what failed otherwise may not.
  const auto failed = [](const ClaimTime& time) {
    return time.error.has_value() && time.error->kind != "wrong_when_timed";
  };
  if (reply.has_value() && may_be_known && std::ranges::none_of(reply->times, failed)) baselines_[modes] = *reply;
  return reply;
}

}  // namespace planish
