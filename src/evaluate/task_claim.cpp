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
  // What a candidate has run in measures nothing else.
  return request.more && request.path.empty() && baseline_is_small();
}

bool TaskEvaluator::baseline_is_small() const {
  // Its parameters and four sets of inputs stay in memory beside everything else.
  constexpr double sets = 4, share = 0.05, word = 4;
  const double bytes = sets * static_cast<double>(reply_.input_bytes) + word * static_cast<double>(reply_.parameters);
  return device_->facts.memory_bytes > 0 && bytes < share * static_cast<double>(device_->facts.memory_bytes);
}

void TaskEvaluator::begin_baselines() {
  const bool wanted = request_.ahead && compiles(request_.baselines);
  if (!wanted || backend::named(device_->facts.target).on_host || !baseline_is_small()) return;
  auto process = device_->spares.baseline(true);
  if (!process.has_value()) return;  // the claim will say why
  std::vector<std::string> modes = request_.baselines;
  std::erase(modes, "eager");
  auto early =
      EarlyBaseline::begin(std::move(*process), request_.task, device_->facts.target, std::move(modes), limits_.open);
  if (early.has_value()) early_ = std::move(*early);
}

Result<ClaimReply> TaskEvaluator::claim(const ClaimRequest& request) {
  std::vector<std::string> modes = request.modes;
  if (modes.empty()) modes = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};
  PLANISH_TRY(const auto lock, take_stage());
  const bool may_be_known = request.known && request.path.empty();
  if (const auto found = baselines_.find(modes); may_be_known && found != baselines_.end()) return found->second;
  // The oracle's data would take memory from what is timed.
  if (oracle_.has_value() && oracle_->alive()) {
    for (auto& [name, region] : regions_) {
      for (const Data& data : region.data) (void)oracle_->drop(data.name, limits_.oracle);
      region.data.clear();
    }
  }
  device_->runners.discard(worker::Runner::Kind::torch);
  const bool on_host = backend::named(device_->facts.target).on_host;
  std::optional<DeviceTurn::Measuring> alone;
  const auto be_alone = [&]() -> Status {
    PLANISH_TRY(auto measuring, device_->turn.measure(reply_.task_name, limits_.lock));
    alone.emplace(std::move(measuring));
    return {};
  };
  // A mode of torch.compile that tunes itself measures as well: beside another's work it would choose badly.
  if (!on_host) PLANISH_CHECK(be_alone());
  ClaimReply reply;
  std::map<std::string, double> compiled;
  if (early_ != nullptr && !request.more) {
    const auto early = std::exchange(early_, nullptr);
    if (auto ready = early->finish(std::min(limits_.baseline, work_seconds_left())); ready.has_value()) {
      baseline_ = std::move(ready->process);
      compiled = std::move(ready->seconds);
    }
  }
  // One that a shorter claim has left imported torch and holds the task already.
  const auto start = [&]() -> Status {
    if (baseline_.has_value() && baseline_->running()) return {};
    baseline_.reset();
    PLANISH_TRY(baseline_, device_->spares.baseline(compiles(modes)));
    return baseline_->open(request_.task, device_->facts.target, limits_.open);
  };
  PLANISH_CHECK(start());
  // Should a baseline be what ships, it is proved as well: what the proof needs imports PyTorch while others compile.
  if (!request.more && compiles(modes)) {
    device_->spares.prepare_oracle();
    device_->runners.warm_up_own();
  }
  const bool keep = keeps_baseline(request);
  if (request.more && !keep && early_ == nullptr) device_->spares.prepare(compiles(request_.baselines));
  const KeepOrEnd after(baseline_, keep);
  std::vector<std::string> names;
  struct Wanted {
    std::string name, kind, path;
  };
  std::vector<Wanted> wanted;
  for (const std::string& mode : modes) wanted.push_back({mode, mode, {}});
  // Before what may have to be given up for lack of time.
  if (!request.path.empty()) wanted.insert(wanted.begin(), {"shipped", "shipped", request.path});
  const double timing_seconds = (request.max_seconds + 1) * static_cast<double>(wanted.size());
  std::vector<Wanted> added;
  for (const Wanted& item : wanted) {
    ClaimTime time;
    time.name = item.name;
    const double left = work_seconds_left() - timing_seconds;
    Result<double> seconds = 0;
    if (const auto early = compiled.find(item.kind); early != compiled.end() && item.name == item.kind) {
      seconds = early->second;
    } else if (left <= 0) {
      seconds = fail("out_of_time", fmt::format("no time was left for {}", item.name));
    } else {
      seconds = baseline_->add(item.name, item.kind, item.path, std::min(limits_.baseline, left));
      if (!seconds.has_value() && seconds.error().kind == "out_of_time" && left > limits_.baseline)
        seconds.error().kind = "hang";
    }
    if (seconds.has_value()) {
      time.compile_seconds = *seconds;
      names.push_back(item.name);
      added.push_back(item);
    } else {
      if (is_device_failure(seconds.error())) return device_lost(seconds.error().message);
      time.error = seconds.error();
      if (!baseline_->alive()) {
        // One mode took the process with it: a new one, with what was there before.
        compiled.clear();
        PLANISH_CHECK(start());
        for (const Wanted& earlier : added)
          PLANISH_CHECK(baseline_->add(earlier.name, earlier.kind, earlier.path, limits_.baseline));
      }
    }
    reply.times.push_back(std::move(time));
  }
  if (names.empty()) return reply;
  worker::TimeRequest timing;
  timing.min_runs = request.min_runs;
  timing.max_runs = request.max_runs;
  timing.max_seconds = request.max_seconds;
  device_->settle();
  if (on_host) PLANISH_CHECK(be_alone());
  std::unique_lock<std::shared_mutex> still;
  if (on_host) still = device_->pool.stand_still();
  reply.clocks_before = device_->nvml.clocks(device_->facts.uuid);
  PLANISH_TRY(const auto times,
              baseline_->time(names, timing, (request.max_seconds + limits_.run) * static_cast<double>(names.size())));
  reply.clocks_after = device_->nvml.clocks(device_->facts.uuid);
  for (ClaimTime& time : reply.times) {
    const auto found = times.find(time.name);
    if (found == times.end()) {
      if (!time.error.has_value()) time.error = Error{"protocol", "the baseline gave no time for " + time.name, {}, {}};
      continue;
    }
    if (!found->second.has_value()) {
      if (is_device_failure(found->second.error())) return device_lost(found->second.error().message);
      time.error = found->second.error();
      continue;
    }
    const worker::Timing& timed = *found->second;
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
    time.samples_ms = timed.samples_ms;
  }
  if (may_be_known && std::ranges::none_of(reply.times, [](const ClaimTime& time) { return time.error.has_value(); }))
    baselines_[modes] = reply;
  return reply;
}

}  // namespace planish
