#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/work_scope.h"
#include "evaluate/floor.h"
#include "evaluate/freshness.h"
#include "evaluate/module_data.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"

namespace planish {
namespace {

constexpr const char* second_set = "verify1";
/// Calls in a row that are timed from outside take about so long.
constexpr double outside_ms = 200;
/// A module may say that a call takes so many times less than many in a row do by our clock: caches are warm there and
/// nothing is in between, so an honest one says more. Another process can only disturb either side for so long: all of
/// `rounds` must disagree.
constexpr double disagreement = 2, slack_ms = 0.05;
constexpr int rounds = 3;

double seconds_since(TimePoint start) {
  return std::chrono::duration<double>(real_clock().now() - start).count();
}

}  // namespace

Status TaskEvaluator::time_module(const ModuleUnderTest& tested, VerifyReply& reply) {
  worker::Oracle& oracle = tested.oracle;
  worker::Runner& runner = tested.runner;
  const auto refuse = [&](Outcome outcome, std::string why) -> Status {
    reply.verified = false;
    reply.outcome = outcome;
    reply.message = std::move(why);
    reply.times.reset();
    return {};
  };
  const auto failed = [&](const Error& error) -> Status {
    if (error.kind == "out_of_time" && work_seconds_left() <= 0) return std::unexpected(error);
    return refuse(outcome_of_runner(error, runner.fault()), "while it was timed: " + error.message);
  };
  // Contents and addresses of a second set, where memory has room for it.
  worker::TimeRequest request;
  request.data = {tested.data.name};
  std::vector<const worker::DataSet*> sets{&tested.data};
  worker::DataSet second;
  const Drop drop(oracle, second_set, limits_.oracle);
  constexpr double share = 0.1;
  if (static_cast<double>(tested.data.bytes()) < share * static_cast<double>(device_->facts.memory_bytes)) {
    PLANISH_TRY(second, oracle.make("task", second_set, fresh_seed(), "task", limits_.oracle, tested.own_state));
    if (auto bound = runner.bind(tested.handle, second_set, module_bindings(second), limits_.load); !bound.has_value())
      return failed(bound.error());
    request.data.emplace_back(second_set);
    sets.push_back(&second);
  }
  PLANISH_TRY(const std::string skipped, oracle.refresh(tested.data.name, fresh_seed(), "task", limits_.oracle));
  if (!skipped.empty()) return fail("infrastructure", "the task's own data were refused: " + skipped);
  for (const std::string& name : request.data) PLANISH_CHECK(oracle.poison(name, limits_.oracle));

  const bool on_host = backend::named(device_->facts.target).on_host;
  request.flush_bytes = on_host ? 0 : 2 * device_->facts.l2_bytes;
  request.min_runs = 10;
  request.max_runs = 200;
  request.max_seconds = 2;
  PLANISH_TRY(const auto machine, device_->turn.measure(reply_.task_name, limits_.lock));
  std::unique_lock<std::shared_mutex> still;
  if (on_host) still = device_->pool.stand_still();
  ModuleTimes times;
  worker::Timing timing;
  std::string mismatch;
  for (int round = 0; round < rounds; ++round) {
    const TimePoint start = real_clock().now();
    auto timed = runner.time(tested.handle, request, request.max_seconds + limits_.run * 4);
    if (!timed.has_value()) return failed(timed.error());
    mismatch = time_mismatch(*timed, seconds_since(start));
    timing = std::move(*timed);
    // By a clock that is not the module's: the message alone, then the message and many calls. On a GPU a call may
    // return before its work is done, and the host be the slower of the two.
    const double own_ms = on_host ? timing.median_ms : std::max(timing.median_ms, timing.host_us / 1000);
    double least = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < 2; ++repeat) {
      const TimePoint first = real_clock().now();
      if (auto ran = runner.repeat(tested.handle, tested.data.name, 1, limits_.run); !ran.has_value())
        return failed(ran.error());
      const double one = seconds_since(first);
      // Few where they take longer than it says.
      const double affordable = std::max(2.0, 3 * outside_ms / (1000 * std::max(one, 1e-6)));
      const auto calls =
          static_cast<std::int64_t>(std::min(affordable, std::clamp(outside_ms / std::max(own_ms, 1e-3), 2.0, 2000.0)));
      const TimePoint then = real_clock().now();
      const double limit = limits_.run + 10 * static_cast<double>(calls) * std::max(one, 1e-3);
      if (auto ran = runner.repeat(tested.handle, tested.data.name, calls + 1, limit); !ran.has_value())
        return failed(ran.error());
      least = std::min(least, 1000 * (seconds_since(then) - one) / static_cast<double>(calls));
    }
    times.outside_ms = std::max(0.0, least);
    if (mismatch.empty() && times.outside_ms > disagreement * own_ms + slack_ms) {
      mismatch = fmt::format("it says that a call takes {:.4g} ms; many in a row took {:.4g} ms each by our clock",
                             own_ms, times.outside_ms);
    }
    if (mismatch.empty()) break;
  }
  if (!mismatch.empty()) return refuse(Outcome::time_mismatch, mismatch);
  // What constants answer needs no work but to write them.
  NeededWork needed = needed_work_of(graph_);
  if (!reply.degenerate.empty()) needed = {.output_bytes = needed.output_bytes};
  if (std::string why = faster_than_possible(device_->facts, needed, timing.median_ms); !why.empty())
    return refuse(Outcome::faster_than_possible, std::move(why));
  for (const worker::DataSet* set : sets) {
    const std::string& name = set == &second ? second_set : tested.data.name;
    PLANISH_TRY(auto check, oracle.check(name, "full", limits_.oracle));
    judge_again(check, outputs_of(*set));
    if (!check.ok) {
      return refuse(Outcome::wrong_when_timed,
                    fmt::format("outputs of a timed call: {}", check.message.empty() ? check.problem : check.message));
    }
  }
  if (sets.size() > 1) {
    std::optional<Error> error;
    const auto run = [&](const std::string& name) -> Result<std::optional<double>> {
      PLANISH_CHECK(oracle.poison(name, limits_.oracle));
      // By our clock: a module that turns its own would hide what it keeps.
      const TimePoint start = real_clock().now();
      auto ran = runner.run(tested.handle, name, limits_.run);
      if (ran.has_value()) return std::optional(1000 * seconds_since(start));
      error = ran.error();
      return std::optional<double>();
    };
    const auto on_seed = [&](std::uint64_t seed) -> Result<std::optional<double>> {
      PLANISH_TRY(const std::string refused, oracle.refresh(tested.data.name, seed, "task", limits_.oracle));
      if (!refused.empty()) return fail("infrastructure", "the task's own data were refused: " + refused);
      PLANISH_TRY(const auto woken, run(second_set));
      if (!woken.has_value()) return woken;
      return run(tested.data.name);
    };
    PLANISH_TRY(auto why,
                keeps_results({[this] { return fresh_seed(); }, on_seed, [&] { return run(tested.data.name); }}));
    if (!why.has_value()) return failed(*error);
    if (!why->empty()) return refuse(Outcome::time_mismatch, std::move(*why));
  }
  times.median_ms = timing.median_ms;
  times.lo_ms = timing.lo_ms;
  times.hi_ms = timing.hi_ms;
  times.host_us = timing.host_us;
  times.samples_ms = std::move(timing.samples_ms);
  reply.times = std::move(times);
  return {};
}

}  // namespace planish
