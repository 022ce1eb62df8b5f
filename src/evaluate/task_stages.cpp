#include <fmt/core.h>

#include <algorithm>

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
    PLANISH_TRY(auto check, oracle_->check(data.name, stage, limits_.oracle));
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

Result<bool> TaskEvaluator::test(Region& region, const std::string& level, Loaded& loaded, Evaluation& evaluation) {
  evaluation.tier = Tier::test;
  evaluation.test.emplace();
  TestReport& report = *evaluation.test;
  report.skipped = region.reply.skipped;
  const TimePoint start = real_clock().now();
  const auto stop_clock = [&] { report.seconds = std::chrono::duration<double>(real_clock().now() - start).count(); };
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
  Data& data = region.data.front();
  PLANISH_TRY(const bool bound, bind(region, 0, loaded, evaluation));
  if (!bound) return false;
  for (const std::string& regime : regimes) {
    TestCase item;
    item.seed = fresh_seed();
    item.regime = regime;
    PLANISH_TRY(const std::string skipped, oracle_->refresh(data.name, item.seed, regime, limits_.oracle));
    if (!skipped.empty()) {
      if (regime == "task") return fail("infrastructure", "the task's own data were refused: " + skipped);
      report.skipped[regime] = skipped;
      continue;
    }
    auto passed =
        test_case(data, level == "full" ? "full" : "screen", loaded, item, evaluation.outcome, evaluation.message);
    if (!passed.has_value()) return passed;
    if (!*passed) item.ok = false;
    report.cases.push_back(std::move(item));
    if (!*passed) {
      stop_clock();
      return false;
    }
  }
  stop_clock();
  return true;
}

Result<bool> TaskEvaluator::bench(Region& region, const EvaluateRequest& request, Loaded& loaded,
                                  Evaluation& evaluation) {
  evaluation.tier = Tier::bench;
  const bool full = request.level == "full";
  const std::size_t sets = timed_sets(region);
  const std::size_t old_sets = region.data.size();
  PLANISH_CHECK(ensure_data(region, sets));
  worker::TimeRequest timing_request;
  for (std::size_t i = 0; i < sets; ++i) {
    Data& data = region.data[i];
    // The first holds the data that the candidate was tested on a moment ago.
    if (i > 0 && i < old_sets && (full || ++data.uses >= uses_before_refresh)) {
      data.uses = 0;
      PLANISH_TRY(const std::string skipped, oracle_->refresh(data.name, fresh_seed(), "task", limits_.oracle));
      if (!skipped.empty()) return fail("infrastructure", "the task's own data were refused: " + skipped);
    }
    PLANISH_TRY(const bool bound, bind(region, i, loaded, evaluation));
    if (!bound) return false;
    PLANISH_CHECK(oracle_->poison(data.name, limits_.oracle));
    timing_request.data.push_back(data.name);
  }
  const bool on_host = backend::named(device_->facts.target).on_host;
  timing_request.flush_bytes = on_host ? 0 : 2 * device_->facts.l2_bytes;
  timing_request.interval = 0.01;

  BenchReport report;
  double wall_seconds = 0;
  worker::Timing timing;
  {
    device_->settle();
    // Order: the machine's lock first, so that our own compile workers do not stand still while another run measures.
    PLANISH_TRY(const auto machine, device_->turn.measure(reply_.task_name, limits_.lock));
    std::unique_lock<std::shared_mutex> still;
    if (on_host) still = device_->pool.stand_still();
    if (request.give_up_ms > 0) {
      worker::TimeRequest probe = timing_request;
      probe.min_runs = static_cast<std::int64_t>(sets);
      probe.max_runs = static_cast<std::int64_t>(sets) + 1;
      probe.max_seconds = limits_.run / 4;
      auto probed = loaded.runner->time(loaded.handle, probe, limits_.run * 2);
      if (!probed.has_value()) return runner_failed(probed.error(), loaded, evaluation.outcome, evaluation.message);
      const double best = *std::ranges::min_element(probed->samples_ms);
      if (best > request.give_up_ms) {
        evaluation.outcome = Outcome::given_up;
        evaluation.message =
            fmt::format("{:.4g} ms at best, and {:.4g} ms is too slow to go on with", best, request.give_up_ms);
        report.median_ms = probed->median_ms;
        report.lo_ms = probed->lo_ms;
        report.hi_ms = probed->hi_ms;
        report.runs = static_cast<std::int64_t>(probed->samples_ms.size());
        report.host_us = probed->host_us;
        report.samples_ms = probed->samples_ms;
        evaluation.bench = std::move(report);
        return false;
      }
    }
    timing_request.min_runs = std::max<std::int64_t>(static_cast<std::int64_t>(sets), full ? 20 : 7);
    timing_request.max_runs = full ? 300 : 60;
    timing_request.max_seconds = full ? 3 : 0.6;
    report.clocks_before = device_->nvml.clocks(device_->facts.uuid);
    const TimePoint start = real_clock().now();
    auto timed = loaded.runner->time(loaded.handle, timing_request, timing_request.max_seconds + limits_.run * 4);
    wall_seconds = std::chrono::duration<double>(real_clock().now() - start).count();
    report.clocks_after = device_->nvml.clocks(device_->facts.uuid);
    if (!timed.has_value()) return runner_failed(timed.error(), loaded, evaluation.outcome, evaluation.message);
    timing = std::move(*timed);
  }
  report.median_ms = timing.median_ms;
  report.lo_ms = timing.lo_ms;
  report.hi_ms = timing.hi_ms;
  report.runs = static_cast<std::int64_t>(timing.samples_ms.size());
  report.host_us = timing.host_us;
  report.wall_ms = wall_seconds * 1000 / static_cast<double>(timing.samples_ms.size());
  report.samples_ms = timing.samples_ms;
  evaluation.bench = std::move(report);
  evaluation.roofline = roofline_of(device_->facts, region.request.bytes, region.request.flops, timing.median_ms);
  if (const std::string mismatch = time_mismatch(timing, wall_seconds); !mismatch.empty()) {
    evaluation.outcome = Outcome::time_mismatch;
    evaluation.message = mismatch;
    return false;
  }
  if (const std::string why = faster_than_possible(device_->facts, needed_of(region), timing.median_ms); !why.empty()) {
    evaluation.outcome = Outcome::faster_than_possible;
    evaluation.message = why;
    return false;
  }
  for (std::size_t i = 0; i < sets; ++i) {
    PLANISH_TRY(auto check, oracle_->check(region.data[i].name, full ? "full" : "screen", limits_.oracle));
    judge_again(check, outputs_of(region.data[i].set));
    if (check.ok) continue;
    evaluation.outcome = Outcome::wrong_when_timed;
    evaluation.message = fmt::format("outputs of a timed run: {}", describe(check));
    return false;
  }
  if (full && sets > 1) return computes_anew(region, loaded, evaluation);
  return true;
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
