#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "backend/backend.h"
#include "base/clock.h"
#include "evaluate/device.h"
#include "evaluate/floor.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"

namespace planish {
namespace {

constexpr int full_seeds = 5;
/// Screened candidates share the contents of the timed sets they were not tested on for this long: making expectations
/// costs more than timing.
constexpr int uses_before_refresh = 16;
/// Seconds that other contents of the set that is tested on, and what is expected of them, may take for each candidate
/// that is looked at: where the task draws half a billion numbers on the host these are two, and a budget of five
/// seconds would be four candidates.
constexpr double new_data_seconds_at_most = 0.1;

std::string describe(const worker::CheckReply& check) {
  if (!check.message.empty()) return check.message;
  return check.problem.empty() ? "the check failed" : check.problem;
}

}  // namespace

Result<bool> TaskEvaluator::test_case(Data& data, const std::string& stage, Loaded& loaded, TestCase& test_case,
                                      Outcome& outcome, std::string& message) {
  std::optional<worker::CheckReply> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    PLANISH_CHECK(oracle_->poison(data.name, limits_.oracle));
    auto ran = loaded.runner->run(loaded.handle, data.name, limits_.run);
    if (!ran.has_value()) {
      test_case.problem = ran.error().kind.name();
      return runner_failed(ran.error(), loaded, outcome, message);
    }
    const TimePoint start = real_clock().now();
    PLANISH_TRY(auto check, oracle_->check(data.name, stage, limits_.oracle));
    // What is expected is known the second time.
    data.expecting_seconds = repeat == 0 ? seconds_since(start) : data.expecting_seconds - seconds_since(start);
    judge_again(check, outputs_of(data.set));
    enter(test_case, check);
    if (!check.ok) {
      outcome = outcome_of_check(check);
      message = describe(check);
      if (repeat == 1) {
        outcome = Outcome::nondeterministic;
        message = "the first run on the same data was right, the second is not: " + message;
      }
      return false;
    }
    if (repeat == 1 && repeats_disagree(*first, check)) {
      test_case.ok = false;
      outcome = Outcome::nondeterministic;
      message = "two runs on the same data differ by more than rounding";
      return false;
    }
    first = std::move(check);
  }
  return true;
}

Result<bool> TaskEvaluator::renew(Region& region, const std::string& level, const std::string& regime,
                                  TestReport& report) {
  Data& data = region.data.front();
  const bool slow = region.new_data_seconds > new_data_seconds_at_most;
  const int most = slow ? uses_before_refresh : 1;
  if (level == "screen" && data.own_kind && data.uses++ < most) return false;
  data.uses = 1;
  data.seed = fresh_seed();
  data.own_kind = false;  // until they are there
  const TimePoint start = real_clock().now();
  PLANISH_TRY(const std::string skipped, oracle_->refresh(data.name, data.seed, regime, limits_.oracle));
  if (!skipped.empty()) {
    if (regime == "task") return fail("infrastructure", "the task's own data were refused: " + skipped);
    report.skipped[regime] = skipped;
    return true;
  }
  data.own_kind = regime == "task";
  if (data.own_kind) region.new_data_seconds = seconds_since(start);
  return true;
}

Result<bool> TaskEvaluator::test(Region& region, const std::string& level, Loaded& loaded, Evaluation& evaluation) {
  evaluation.tier = Tier::test;
  evaluation.test.emplace();
  TestReport& report = *evaluation.test;
  if (level == "full") PLANISH_CHECK(know_regimes(region));
  report.skipped = region.reply.skipped;
  const TimePoint start = real_clock().now();
  const auto stop_clock = [&] { report.seconds = seconds_since(start); };
  std::vector<std::string> regimes;
  if (level == "full") {
    for (const std::string& regime : region.reply.regimes) {
      if (regime != "task") regimes.push_back(regime);
    }
    // The task's own data last: they are what stays in the buffers, and what is timed.
    regimes.insert(regimes.end(), full_seeds, "task");
  } else {
    regimes.emplace_back("task");
  }
  PLANISH_TRY(const bool bound, bind(region, 0, loaded, evaluation));
  if (!bound) return false;
  for (const std::string& regime : regimes) {
    PLANISH_TRY(bool passed, test_regime(region, level, regime, loaded, evaluation));
    if (!passed && level == "full") {
      PLANISH_TRY(passed, is_outvoted(region, regime, loaded, evaluation));
    }
    if (!passed) {
      stop_clock();
      return false;
    }
  }
  const bool held = level == "full" && backend::named(device_->facts.target).on_host;
  PLANISH_TRY(const bool passed, held ? test_threads(region, loaded, evaluation) : Result<bool>(true));
  stop_clock();
  return passed;
}

Result<bool> TaskEvaluator::test_threads(Region& region, Loaded& loaded, Evaluation& evaluation) {
  const Data& data = region.data.front();
  TestCase item = evaluation.test->cases.back();
  if (!data.own_kind || item.regime != "task") return true;
  for (const int threads : {1, static_cast<int>(std::thread::hardware_concurrency()) + 1}) {
    PLANISH_CHECK(oracle_->poison(data.name, limits_.oracle));
    const auto ran = loaded.runner->run(loaded.handle, data.name, limits_.run, threads);
    if (!ran.has_value()) {
      item.problem = ran.error().kind.name();
      runner_failed(ran.error(), loaded, evaluation.outcome, evaluation.message);
    } else {
      PLANISH_TRY(auto check, oracle_->check(data.name, "caller", limits_.oracle));
      judge_again(check, outputs_of(data.set));
      enter(item, check);
      // Sums that threads share are added in another order.
      if (check.ok || is_near_gate(item)) continue;
      evaluation.outcome = outcome_of_check(check);
      evaluation.message = describe(check);
    }
    item.ok = false;
    evaluation.message = fmt::format(
        "with {} thread{}: {}\n(with as many as the machine has it was right on the same data: "
        "torch.set_num_threads() says how many a call gets; ask omp_get_num_threads() in the parallel region)",
        threads, threads == 1 ? "" : "s", evaluation.message);
    evaluation.test->cases.push_back(std::move(item));
    return false;
  }
  return true;
}

Result<bool> TaskEvaluator::test_regime(Region& region, const std::string& level, const std::string& regime,
                                        Loaded& loaded, Evaluation& evaluation) {
  TestReport& report = *evaluation.test;
  Data& data = region.data.front();
  PLANISH_TRY(const bool renewed, renew(region, level, regime, report));
  if (report.skipped.contains(regime)) return true;
  TestCase item;
  item.seed = data.seed;
  item.regime = regime;
  PLANISH_TRY(const bool passed, test_case(data, level == "full" ? "full" : "screen", loaded, item, evaluation.outcome,
                                           evaluation.message));
  if (renewed && passed && data.own_kind) region.new_data_seconds += std::max(0.0, data.expecting_seconds);
  if (!passed) item.ok = false;
  report.cases.push_back(std::move(item));
  return passed;
}

Result<bool> TaskEvaluator::is_outvoted(Region& region, const std::string& regime, Loaded& loaded,
                                        Evaluation& evaluation) {
  std::vector<TestCase>& cases = evaluation.test->cases;
  const std::size_t missed = cases.size() - 1;
  if (evaluation.outcome != Outcome::wrong || !is_near_gate(cases[missed])) return false;
  const std::string message = evaluation.message;
  for (int further = 0; further < 2; ++further) {
    PLANISH_TRY(const bool passed, test_regime(region, "full", regime, loaded, evaluation));
    if (passed) continue;
    if (evaluation.outcome == Outcome::wrong) evaluation.message = message;
    return false;
  }
  cases[missed].outvoted = true;
  return true;
}

/// The stage itself. Steps give false where the candidate is through, and the evaluation says why.
class TaskEvaluator::Bench {
 public:
  Bench(TaskEvaluator& task, Region& region, const EvaluateRequest& request, Loaded& loaded, Evaluation& evaluation)
      : task_(task),
        region_(region),
        give_up_ms_(request.give_up_ms),
        full_(request.level == "full"),
        on_host_(backend::named(task.device_->facts.target).on_host),
        sets_(task.timed_sets(region)),
        loaded_(loaded),
        evaluation_(evaluation) {}

  Result<bool> run() {
    for (const auto step : {&Bench::bind_sets, &Bench::time, &Bench::is_possible, &Bench::wrote_what_is_right}) {
      PLANISH_TRY(const bool goes_on, (this->*step)());
      if (!goes_on) return false;
    }
    if (full_ && sets_ > 1) return task_.computes_anew(region_, loaded_, evaluation_);
    return true;
  }

 private:
  const Limits& limits() const { return task_.limits_; }
  DeviceHost& device() const { return *task_.device_; }

  bool end(Outcome outcome, std::string message) {
    evaluation_.outcome = outcome;
    evaluation_.message = std::move(message);
    return false;
  }
  bool failed(const Error& error) {
    return task_.runner_failed(error, loaded_, evaluation_.outcome, evaluation_.message);
  }

  Result<bool> bind_sets() {
    const std::size_t old_sets = region_.data.size();
    PLANISH_CHECK(task_.ensure_data(region_, sets_));
    for (std::size_t i = 0; i < sets_; ++i) {
      Data& data = region_.data[i];
      // The first holds the data that the candidate was tested on a moment ago.
      if (i > 0 && i < old_sets && (full_ || ++data.uses >= uses_before_refresh)) {
        data.uses = 0;
        PLANISH_TRY(const std::string skipped,
                    task_.oracle_->refresh(data.name, task_.fresh_seed(), "task", limits().oracle));
        if (!skipped.empty()) return fail("infrastructure", "the task's own data were refused: " + skipped);
      }
      PLANISH_TRY(const bool bound, task_.bind(region_, i, loaded_, evaluation_));
      if (!bound) return false;
      PLANISH_CHECK(task_.oracle_->poison(data.name, limits().oracle));
      timing_request_.data.push_back(data.name);
    }
    timing_request_.flush_bytes = on_host_ ? 0 : 2 * device().facts.l2_bytes;
    timing_request_.interval = 0.01;
    return true;
  }

  Result<bool> time() {
    device().settle();
    // Order: the machine's lock first, so that our own compile workers do not stand still while another run measures.
    PLANISH_TRY(const auto machine, device().turn.measure(task_.reply_.task_name, limits().lock));
    std::unique_lock<std::shared_mutex> still;
    if (on_host_) still = device().pool.stand_still();
    if (give_up_ms_ > 0) {
      PLANISH_TRY(const bool goes_on, probe());
      if (!goes_on) return false;
    }
    timing_request_.min_runs = std::max<std::int64_t>(static_cast<std::int64_t>(sets_), full_ ? 20 : 7);
    timing_request_.max_runs = full_ ? 300 : 60;
    timing_request_.max_seconds = full_ ? 3 : 0.6;
    BenchReport report;
    report.clocks_before = device().nvml.clocks(device().facts.uuid);
    const TimePoint start = real_clock().now();
    auto timed = loaded_.runner->time(loaded_.handle, timing_request_, timing_request_.max_seconds + limits().run * 4);
    wall_seconds_ = seconds_since(start);
    report.clocks_after = device().nvml.clocks(device().facts.uuid);
    if (!timed.has_value()) return failed(timed.error());
    timing_ = std::move(*timed);
    report.wall_ms = wall_seconds_ * 1000 / static_cast<double>(timing_.samples_ms.size());
    enter(timing_, std::move(report));
    evaluation_.roofline = roofline_of(device().facts, region_.request.bytes, region_.request.flops, timing_.median_ms);
    return true;
  }

  /// A few runs first: what is far too slow is not timed further.
  Result<bool> probe() {
    worker::TimeRequest few = timing_request_;
    few.min_runs = static_cast<std::int64_t>(sets_);
    few.max_runs = static_cast<std::int64_t>(sets_) + 1;
    few.max_seconds = limits().run / 4;
    auto probed = loaded_.runner->time(loaded_.handle, few, limits().run * 2);
    if (!probed.has_value()) return failed(probed.error());
    const double best = *std::ranges::min_element(probed->samples_ms);
    if (best <= give_up_ms_) return true;
    enter(*probed, {});
    return end(Outcome::given_up,
               fmt::format("{:.4g} ms at best, and {:.4g} ms is too slow to go on with", best, give_up_ms_));
  }

  void enter(const worker::Timing& timing, BenchReport report) {
    report.median_ms = timing.median_ms;
    report.lo_ms = timing.lo_ms;
    report.hi_ms = timing.hi_ms;
    report.runs = static_cast<std::int64_t>(timing.samples_ms.size());
    report.host_us = timing.host_us;
    report.samples_ms = timing.samples_ms;
    evaluation_.bench = std::move(report);
  }

  Result<bool> is_possible() {
    if (std::string mismatch = time_mismatch(timing_, wall_seconds_); !mismatch.empty())
      return end(Outcome::time_mismatch, std::move(mismatch));
    std::string why = faster_than_possible(device().facts, task_.needed_of(region_), timing_.median_ms);
    return why.empty() || end(Outcome::faster_than_possible, std::move(why));
  }

  Result<bool> wrote_what_is_right() {
    // Where somebody began to measure at the very end of the timing, that is over first.
    PLANISH_CHECK(device().turn.begin(task_.reply_.task_name, limits().lock));
    for (std::size_t i = 0; i < sets_; ++i) {
      const Data& data = region_.data[i];
      PLANISH_TRY(auto check, task_.oracle_->check(data.name, full_ ? "full" : "screen", limits().oracle));
      judge_again(check, outputs_of(data.set));
      if (!check.ok) return end(Outcome::wrong_when_timed, fmt::format("outputs of a timed run: {}", describe(check)));
    }
    return true;
  }

  TaskEvaluator& task_;
  Region& region_;
  const double give_up_ms_;
  const bool full_, on_host_;
  const std::size_t sets_;
  Loaded& loaded_;
  Evaluation& evaluation_;
  worker::TimeRequest timing_request_;
  worker::Timing timing_;
  double wall_seconds_ = 0;
};

Result<bool> TaskEvaluator::bench(Region& region, const EvaluateRequest& request, Loaded& loaded,
                                  Evaluation& evaluation) {
  evaluation.tier = Tier::bench;
  return Bench(*this, region, request, loaded, evaluation).run();
}

NeededWork TaskEvaluator::needed_of(const Region& region) const {
  if (region.request.region == "task" && region.described && region.reply.degenerate.empty())
    return needed_work_of(graph_);
  NeededWork out;
  for (const worker::SharedBuffer& buffer : region.data.front().set.buffers) {
    if (buffer.role == "output") out.output_bytes += static_cast<double>(buffer.bytes);
  }
  return out;
}

}  // namespace planish
