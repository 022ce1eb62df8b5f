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

}  // namespace

/// The timing of one module. Steps give false where the module is through, and the reply says why.
class TaskEvaluator::ModuleTiming {
 public:
  ModuleTiming(TaskEvaluator& task, const ModuleUnderTest& tested, VerifyReply& reply)
      : task_(task), tested_(tested), reply_(reply), on_host_(backend::named(task.device_->facts.target).on_host) {}

  Status run() {
    const Drop drop(tested_.oracle, second_set, limits().oracle);
    const Unbind unbind(tested_.runner, second_set, limits().load);
    PLANISH_TRY(bool goes_on, make_data());
    if (!goes_on) return {};
    request_.flush_bytes = on_host_ ? 0 : 2 * task_.device_->facts.l2_bytes;
    request_.min_runs = 10;
    request_.max_runs = 200;
    request_.max_seconds = 2;
    for (const auto step : {&ModuleTiming::time, &ModuleTiming::wrote_what_is_right, &ModuleTiming::computes_anew}) {
      PLANISH_TRY(goes_on, (this->*step)());
      if (!goes_on) return {};
    }
    times_.median_ms = timing_.median_ms;
    times_.lo_ms = timing_.lo_ms;
    times_.hi_ms = timing_.hi_ms;
    times_.host_us = timing_.host_us;
    times_.samples_ms = std::move(timing_.samples_ms);
    reply_.times = std::move(times_);
    return {};
  }

 private:
  /// Nobody else uses the device, until it ends. What is compared in between needs that no longer.
  struct Alone {
    DeviceTurn::Measuring machine;
    std::unique_lock<std::shared_mutex> still;
  };

  const Limits& limits() const { return task_.limits_; }

  Result<Alone> be_alone() {
    PLANISH_TRY(auto machine, task_.device_->turn.measure(task_.reply_.task_name, limits().lock));
    return Alone{std::move(machine),
                 on_host_ ? task_.device_->pool.stand_still() : std::unique_lock<std::shared_mutex>()};
  }

  bool refuse(Outcome outcome, std::string why) {
    reply_.verified = false;
    reply_.outcome = outcome;
    reply_.message = std::move(why);
    reply_.times.reset();
    return false;
  }

  Result<bool> failed(const Error& error) {
    if (error.kind == "out_of_time" && work_seconds_left() <= 0) return std::unexpected(error);
    return refuse(outcome_of_runner(error, tested_.runner.fault()), "while it was timed: " + error.message);
  }

  /// New contents of the task's own kind for the set that it was verified on.
  Status refresh(std::uint64_t seed) {
    PLANISH_TRY(const std::string skipped, tested_.oracle.refresh(tested_.data.name, seed, "task", limits().oracle));
    if (!skipped.empty()) return fail("infrastructure", "the task's own data were refused: " + skipped);
    return {};
  }

  /// New contents, and addresses and contents of a second set where memory has room for it.
  Result<bool> make_data() {
    request_.data = {tested_.data.name};
    sets_ = {&tested_.data};
    constexpr double share = 0.1;
    if (static_cast<double>(tested_.data.bytes()) < share * static_cast<double>(task_.device_->facts.memory_bytes)) {
      PLANISH_TRY(second_, tested_.oracle.make("task", second_set, task_.fresh_seed(), "task", limits().oracle,
                                               tested_.own_state));
      auto bound = tested_.runner.bind(tested_.handle, second_set, module_bindings(second_), limits().load);
      if (!bound.has_value()) return failed(bound.error());
      request_.data.emplace_back(second_set);
      sets_.push_back(&second_);
    }
    PLANISH_CHECK(refresh(task_.fresh_seed()));
    for (const std::string& name : request_.data) PLANISH_CHECK(tested_.oracle.poison(name, limits().oracle));
    return true;
  }

  /// By its own clock and by ours, again where they disagree; not faster than the device can be.
  Result<bool> time() {
    PLANISH_TRY(const auto alone, be_alone());
    std::string mismatch;
    for (int round = 0; round < rounds; ++round) {
      const TimePoint start = real_clock().now();
      auto timed = tested_.runner.time(tested_.handle, request_, request_.max_seconds + limits().run * 4);
      if (!timed.has_value()) return failed(timed.error());
      mismatch = time_mismatch(*timed, seconds_since(start));
      timing_ = std::move(*timed);
      // On a GPU a call may return before its work is done, and the host be the slower of the two.
      const double own_ms = on_host_ ? timing_.median_ms : std::max(timing_.median_ms, timing_.host_us / 1000);
      const auto outside = time_from_outside(own_ms);
      if (!outside.has_value()) return failed(outside.error());
      times_.outside_ms = *outside;
      if (mismatch.empty() && times_.outside_ms > disagreement * own_ms + slack_ms) {
        mismatch = fmt::format("it says that a call takes {:.4g} ms; many in a row took {:.4g} ms each by our clock",
                               own_ms, times_.outside_ms);
      }
      if (mismatch.empty()) return is_possible();
    }
    return refuse(Outcome::time_mismatch, mismatch);
  }

  /// Milliseconds of a call by a clock that is not the module's: the message alone, then the message and many calls.
  Result<double> time_from_outside(double own_ms) {
    double least = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < 2; ++repeat) {
      const TimePoint first = real_clock().now();
      PLANISH_CHECK(tested_.runner.repeat(tested_.handle, tested_.data.name, 1, limits().run));
      const double one = seconds_since(first);
      // Few where they take longer than it says.
      const double affordable = std::max(2.0, 3 * outside_ms / (1000 * std::max(one, 1e-6)));
      const auto calls =
          static_cast<std::int64_t>(std::min(affordable, std::clamp(outside_ms / std::max(own_ms, 1e-3), 2.0, 2000.0)));
      const TimePoint then = real_clock().now();
      const double limit = limits().run + 10 * static_cast<double>(calls) * std::max(one, 1e-3);
      PLANISH_CHECK(tested_.runner.repeat(tested_.handle, tested_.data.name, calls + 1, limit));
      least = std::min(least, 1000 * (seconds_since(then) - one) / static_cast<double>(calls));
    }
    return std::max(0.0, least);
  }

  Result<bool> is_possible() {
    // What constants answer needs no work but to write them.
    NeededWork needed = needed_work_of(task_.graph_);
    if (!reply_.degenerate.empty()) needed = {.output_bytes = needed.output_bytes};
    std::string why = faster_than_possible(task_.device_->facts, needed, timing_.median_ms);
    return why.empty() || refuse(Outcome::faster_than_possible, std::move(why));
  }

  Result<bool> wrote_what_is_right() {
    // Where somebody began to measure at the very end of the timing, that is over first.
    PLANISH_CHECK(task_.device_->turn.begin(task_.reply_.task_name, limits().lock));
    for (const worker::DataSet* set : sets_) {
      const std::string& name = set == &second_ ? second_set : tested_.data.name;
      PLANISH_TRY(auto check, tested_.oracle.check(name, "full", limits().oracle));
      judge_again(check, outputs_of(*set));
      if (!check.ok) {
        return refuse(Outcome::wrong_when_timed, fmt::format("outputs of a timed call: {}",
                                                             check.message.empty() ? check.problem : check.message));
      }
    }
    return true;
  }

  /// Whether new contents take it about as long as contents it has met before. Known only where there are two sets.
  Result<bool> computes_anew() {
    if (sets_.size() < 2) return true;
    PLANISH_TRY(const auto alone, be_alone());
    const auto on_seed = [&](std::uint64_t seed) -> Result<std::optional<double>> {
      PLANISH_CHECK(refresh(seed));
      PLANISH_TRY(const auto woken, run_once(second_set));
      if (!woken.has_value()) return woken;
      return run_once(tested_.data.name);
    };
    PLANISH_TRY(auto why, keeps_results({[this] { return task_.fresh_seed(); }, on_seed,
                                         [this] { return run_once(tested_.data.name); }}));
    if (!why.has_value()) return failed(*run_error_);
    return why->empty() || refuse(Outcome::time_mismatch, std::move(*why));
  }

  /// Milliseconds by our clock: a module that turns its own would hide what it keeps.
  Result<std::optional<double>> run_once(const std::string& name) {
    PLANISH_CHECK(tested_.oracle.poison(name, limits().oracle));
    const TimePoint start = real_clock().now();
    auto ran = tested_.runner.run(tested_.handle, name, limits().run);
    if (ran.has_value()) return std::optional(1000 * seconds_since(start));
    run_error_ = ran.error();
    return std::optional<double>();
  }

  TaskEvaluator& task_;
  const ModuleUnderTest& tested_;
  VerifyReply& reply_;
  const bool on_host_;
  worker::TimeRequest request_;
  worker::DataSet second_;
  std::vector<const worker::DataSet*> sets_;
  worker::Timing timing_;
  ModuleTimes times_;
  std::optional<Error> run_error_;
};

Status TaskEvaluator::time_module(const ModuleUnderTest& tested, VerifyReply& reply) {
  return ModuleTiming(*this, tested, reply).run();
}

}  // namespace planish
