#include <fmt/core.h>

#include <algorithm>

#include "evaluate/lock.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"
#include "worker/baseline.h"

namespace planish {
namespace {

/// A module's arguments go by name (in0…, out0…); the index only has to tell them apart.
std::vector<worker::Binding> all_buffers(const worker::DataSet& set) {
  std::vector<worker::Binding> bindings;
  for (std::size_t i = 0; i < set.buffers.size(); ++i) bindings.push_back({static_cast<int>(i), &set.buffers[i]});
  return bindings;
}

/// Frees a data set at the end of a scope.
class Drop {
 public:
  Drop(worker::Oracle& oracle, std::string data, double limit)
      : oracle_(oracle), data_(std::move(data)), limit_(limit) {}
  ~Drop() {
    if (oracle_.alive()) (void)oracle_.drop(data_, limit_);
  }
  Drop(const Drop&) = delete;
  Drop& operator=(const Drop&) = delete;

 private:
  worker::Oracle& oracle_;
  std::string data_;
  double limit_;
};

}  // namespace

Result<VerifyReply> TaskEvaluator::verify(const VerifyRequest& request) {
  // The proof is repeated in processes that no candidate has touched. Memory for both oracles may not be there: the old
  // data go first.
  std::scoped_lock lock(device_->stage);
  if (oracle_.has_value() && oracle_->alive()) {
    for (auto& [name, region] : regions_) {
      for (const Data& data : region.data) (void)oracle_->drop(data.name, limits_.oracle);
      region.data.clear();
    }
  }
  device_->runners.discard(worker::Runner::Kind::torch);
  VerifyReply reply;
  // Importing torch and capturing take seconds: not for a second oracle where the first is as good as new.
  const bool own = touched_ || !oracle_.has_value() || !oracle_->alive();
  std::optional<worker::Oracle> second;
  if (own) {
    PLANISH_TRY(second, worker::Oracle::start(tools_));
  }
  PLANISH_TRY(auto runner, worker::Runner::start(tools_, worker::Runner::Kind::torch, device_->facts.target));
  worker::Oracle& oracle = own ? *second : *oracle_;
  std::string graph = reply_.graph;
  if (own) {
    PLANISH_CHECK(oracle.hello(device_->facts.target, limits_.start));
    PLANISH_TRY(auto task, oracle.open(request_.task, request_.accuracy, request_.blobs, limits_.open));
    graph = std::move(task.graph);
  }
  touched_ = true;  // what is verified now is foreign as well
  PLANISH_TRY(auto regimes, oracle.regimes("task", limits_.oracle));
  PLANISH_TRY(auto bite, oracle.bite("task", limits_.oracle));
  reply.skipped = regimes.skipped;
  reply.degenerate = bite.degenerate;

  PLANISH_CHECK(runner.hello(device_->facts.target));
  // Whoever waits for a task so long waits as long for what is to replace it.
  const double run_limit = std::min(limits_.run * 4, limits_.open);
  const auto rejected = [&](const Error& error, const char* doing, double limit) -> Result<VerifyReply> {
    if (is_device_failure(error)) return device_lost(error.message);
    reply.outcome = outcome_of_runner(error, runner.fault());
    reply.message = error.message;
    if (error.kind == "hang") {
      reply.message = fmt::format("{} did not end within {:g} s (--task-timeout SECONDS allows more)", doing, limit);
    }
    for (const std::string& cause : error.causes) reply.message += "\n" + cause;
    return reply;
  };
  // The path may be relative to the client's folder, which is ours as well unless a client says otherwise.
  auto handle = runner.load_module(request.path, request_.task, graph, true, limits_.open);
  if (!handle.has_value()) return rejected(handle.error(), "importing and constructing it", limits_.open);

  std::vector<std::string> order;
  order.insert(order.end(), static_cast<std::size_t>(std::max(1, request.seeds)), "task");
  for (const std::string& regime : regimes.regimes) {
    if (regime != "task") order.push_back(regime);
  }
  PLANISH_TRY(auto data, oracle.make("task", "verify", fresh_seed(), "task", limits_.oracle));
  const Drop drop(oracle, "verify", limits_.oracle);
  if (auto bound = runner.bind(*handle, "verify", all_buffers(data), limits_.load); !bound.has_value())
    return rejected(bound.error(), "giving it buffers", limits_.load);
  for (const std::string& regime : order) {
    TestCase item;
    item.seed = fresh_seed();
    item.regime = regime;
    PLANISH_TRY(const std::string skipped, oracle.refresh("verify", item.seed, regime, limits_.oracle));
    if (!skipped.empty()) {
      reply.skipped[regime] = skipped;
      continue;
    }
    std::optional<worker::CheckReply> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      PLANISH_CHECK(oracle.poison("verify", limits_.oracle));
      auto ran = runner.run(*handle, "verify", run_limit);
      if (!ran.has_value()) {
        item.problem = ran.error().kind;
        reply.cases.push_back(std::move(item));
        return rejected(ran.error(), "its forward", run_limit);
      }
      PLANISH_TRY(auto check, oracle.check("verify", "full", limits_.oracle));
      item.ok = check.ok;
      item.problem = check.problem;
      item.reference = check.reference;
      item.outputs = check.outputs;
      if (!check.ok) {
        reply.outcome = repeat == 0 ? outcome_of_check(check) : Outcome::nondeterministic;
        reply.message = fmt::format("regime {}, seed {}: {}", regime, item.seed,
                                    check.message.empty() ? check.problem : check.message);
        break;
      }
      if (first.has_value() && repeats_disagree(*first, check)) {
        item.ok = false;
        reply.outcome = Outcome::nondeterministic;
        reply.message = fmt::format("regime {}, seed {}: two runs differ by more than rounding", regime, item.seed);
        break;
      }
      first = std::move(check);
    }
    const bool ok = item.ok;
    reply.cases.push_back(std::move(item));
    if (!ok) break;
  }
  reply.verified =
      !reply.cases.empty() && std::ranges::all_of(reply.cases, [](const TestCase& item) { return item.ok; });
  if (reply.verified) reply.outcome = Outcome::ok;
  if (auto ran = runner.program_ran(*handle, limits_.run); ran.has_value() && ran->ran.has_value())
    reply.program = ProgramCalls{ran->calls, *ran->ran, ran->reason};
  // Its own rule, beside ours. Not every task can be put to it (a live module has no constructor): then there is none.
  if (request.kernelbench) {
    if (auto verdict = runner.kernelbench(request_.task, request.path, limits_.open); verdict.has_value()) {
      reply.kernelbench = KernelBenchVerdict{verdict->correct, verdict->message, verdict->trials};
    }
  }
  return reply;
}

Result<ClaimReply> TaskEvaluator::claim(const ClaimRequest& request) {
  std::vector<std::string> modes = request.modes;
  if (modes.empty()) modes = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};
  std::scoped_lock lock(device_->stage);
  // The oracle's data would take memory from what is timed.
  if (oracle_.has_value() && oracle_->alive()) {
    for (auto& [name, region] : regions_) {
      for (const Data& data : region.data) (void)oracle_->drop(data.name, limits_.oracle);
      region.data.clear();
    }
  }
  device_->runners.discard(worker::Runner::Kind::torch);
  ClaimReply reply;
  std::optional<worker::Baseline> baseline;
  const auto start = [&]() -> Status {
    PLANISH_TRY(baseline, worker::Baseline::start(tools_));
    return baseline->open(request_.task, device_->facts.target, limits_.open);
  };
  PLANISH_CHECK(start());
  std::vector<std::string> names;
  struct Wanted {
    std::string name, kind, path;
  };
  std::vector<Wanted> wanted;
  for (const std::string& mode : modes) wanted.push_back({mode, mode, {}});
  if (!request.path.empty()) wanted.push_back({"shipped", "shipped", request.path});
  std::vector<Wanted> added;
  for (const Wanted& item : wanted) {
    ClaimTime time;
    time.name = item.name;
    auto seconds = baseline->add(item.name, item.kind, item.path, limits_.baseline);
    if (seconds.has_value()) {
      time.compile_seconds = *seconds;
      names.push_back(item.name);
      added.push_back(item);
    } else {
      if (is_device_failure(seconds.error())) return device_lost(seconds.error().message);
      time.error = seconds.error();
      if (!baseline->alive()) {
        // One mode took the process with it: a new one, with what was there before.
        PLANISH_CHECK(start());
        for (const Wanted& earlier : added)
          PLANISH_CHECK(baseline->add(earlier.name, earlier.kind, earlier.path, limits_.baseline));
      }
    }
    reply.times.push_back(std::move(time));
  }
  if (names.empty()) return reply;
  worker::TimeRequest timing;
  timing.min_runs = request.min_runs;
  timing.max_runs = request.max_runs;
  timing.max_seconds = request.max_seconds;
  PLANISH_TRY(const auto machine, lock_device(device_->facts.uuid, limits_.lock));
  std::unique_lock<std::shared_mutex> still;
  if (device_->facts.target == "cpu") still = device_->pool.stand_still();
  reply.clocks_before = device_->nvml.clocks(device_->facts.uuid);
  PLANISH_TRY(const auto times,
              baseline->time(names, timing, (request.max_seconds + limits_.run) * static_cast<double>(names.size())));
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
    time.samples_ms = timed.samples_ms;
  }
  return reply;
}

}  // namespace planish
