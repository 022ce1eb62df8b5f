#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/work_scope.h"
#include "evaluate/gain.h"
#include "evaluate/module_data.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"

// A verified module beside the task's own, each in a guest of its own, in turn. What a machine does meanwhile falls on
// both, and the ratios of the rounds say how much that was.
namespace planish {
namespace {

/// Order statistics of nine rounds leave out the least and the greatest.
constexpr int most_rounds = 9, least_rounds = 3;
constexpr double turn_seconds = 0.1, all_seconds = 10;

}  // namespace

class TaskEvaluator::InTurn {
 public:
  InTurn(TaskEvaluator& task, const ModuleUnderTest& tested, VerifyReply& reply)
      : task_(task), tested_(tested), reply_(reply), on_host_(backend::named(task.device_->facts.target).on_host) {
    request_.data = {tested.data.name};
    request_.flush_bytes = on_host_ ? 0 : 2 * task.device_->facts.l2_bytes;
    request_.min_runs = 1;
    request_.max_runs = 1000;
    request_.interval = 1e-6;  // all of the turn: what comes and goes shall fall on both sides
    request_.max_seconds = turn_seconds;
  }

  Status run() {
    PLANISH_TRY(const bool ready, load_original());
    if (!ready) return {};
    const Unbind unbind(task_.original_->runner, tested_.data.name, limits().load);
    {
      PLANISH_TRY(auto machine, task_.device_->turn.measure(task_.reply_.task_name, limits().lock));
      std::unique_lock<std::shared_mutex> still;
      if (on_host_) still = task_.device_->pool.stand_still();
      PLANISH_TRY(const bool timed, rounds());
      if (!timed) return {};
    }
    PLANISH_CHECK(task_.on_device());
    return settle();
  }

 private:
  const Limits& limits() const { return task_.limits_; }

  /// Where the task's own cannot be timed nothing is said against the module, and no gain of it.
  bool without(std::string why) {
    task_.original_.reset();
    reply_.times->not_beside = std::move(why);
    return false;
  }

  Result<bool> without(const Error& error) {
    if (error.kind == "out_of_time" && work_seconds_left() <= 0) return std::unexpected(error);
    return without(fmt::format("{}: {}", error.kind.name(), error.message));
  }

  bool refuse(Outcome outcome, std::string why) {
    reply_.verified = false;
    reply_.outcome = outcome;
    reply_.message = std::move(why);
    reply_.times.reset();
    return false;
  }

  Result<bool> load_original() {
    task_.begin_original();
    if (!task_.original_.has_value()) return without("no process could be started for it");
    Original& original = *task_.original_;
    if (original.handle < 0) {
      const auto greeted = task_.off_device([&] { return original.runner.hello(task_.device_->facts.target); });
      if (!greeted.has_value()) return without(greeted.error());
      const auto loaded =
          original.runner.load_module(task_.request_.task, task_.request_.task, tested_.graph, limits().open);
      if (!loaded.has_value()) return without(loaded.error());
      original.handle = loaded->handle;
    }
    const auto bound =
        original.runner.bind(original.handle, tested_.data.name, module_bindings(tested_.data), limits().load);
    if (!bound.has_value()) return without(bound.error());
    return true;
  }

  /// New contents, and nothing of an earlier answer to them where the outputs are.
  Status renew() {
    PLANISH_TRY(const std::string skipped,
                tested_.oracle.refresh(tested_.data.name, task_.fresh_seed(), "task", limits().oracle));
    if (!skipped.empty()) return fail("infrastructure", "the task's own data were refused: " + skipped);
    return tested_.oracle.poison(tested_.data.name, limits().oracle);
  }

  /// Milliseconds of a call, as both sides are asked for them. False where that side is through.
  Result<bool> turn(bool own, double& ms) {
    PLANISH_CHECK(renew());
    worker::Runner& runner = own ? tested_.runner : task_.original_->runner;
    const std::int64_t handle = own ? tested_.handle : task_.original_->handle;
    const auto timed = runner.time(handle, request_, turn_seconds + limits().run * 4);
    if (timed.has_value()) {
      ms = timed->median_ms;
      return true;
    }
    if (!own) return without(timed.error());
    if (timed.error().kind == "out_of_time" && work_seconds_left() <= 0) return std::unexpected(timed.error());
    return refuse(outcome_of_runner(timed.error(), runner.fault()), "while it was timed: " + timed.error().message);
  }

  Result<bool> rounds() {
    double warm = 0;
    PLANISH_TRY(bool goes_on, turn(false, warm));
    const TimePoint start = real_clock().now();
    for (int n = 0; goes_on && n < most_rounds && (n < least_rounds || seconds_since(start) < all_seconds); ++n) {
      Round round;
      // Neither is always the one that finds the machine as the other left it. The module's turn is the last of all.
      for (const bool own : n % 2 == 0 ? std::array{false, true} : std::array{true, false}) {
        PLANISH_TRY(goes_on, turn(own, own ? round.own_ms : round.baseline_ms));
        if (!goes_on) return false;
      }
      rounds_.push_back(round);
    }
    double last = 0;
    if (goes_on) {
      PLANISH_TRY(goes_on, turn(true, last));
    }
    return goes_on;
  }

  /// What the timed calls wrote is right, and they say of themselves what they said before.
  Status settle() {
    PLANISH_TRY(auto check, tested_.oracle.check(tested_.data.name, "full", limits().oracle));
    judge_again(check, outputs_of(tested_.data));
    if (!check.ok) {
      refuse(Outcome::wrong_when_timed,
             fmt::format("outputs of a timed call: {}", check.message.empty() ? check.problem : check.message));
      return {};
    }
    const auto gain = gain_in_turn(rounds_);
    if (!gain) {
      without("its times are not positive");
      return {};
    }
    BesideTask beside{{}, {}, *gain};
    for (const Round& round : rounds_) {
      beside.own_ms.push_back(round.own_ms);
      beside.original_ms.push_back(round.baseline_ms);
    }
    reply_.times->beside = std::move(beside);
    return {};
  }

  TaskEvaluator& task_;
  const ModuleUnderTest& tested_;
  VerifyReply& reply_;
  const bool on_host_;
  worker::TimeRequest request_;
  std::vector<Round> rounds_;
};

void TaskEvaluator::begin_original() {
  if (original_.has_value() && original_->runner.running()) return;
  original_.reset();
  if (auto runner = device_->runners.fresh_torch(); runner.has_value()) original_ = Original{std::move(*runner), -1};
}

Status TaskEvaluator::time_in_turn(const ModuleUnderTest& tested, VerifyReply& reply) {
  if (!reply.verified || !reply.times.has_value()) return {};
  report_work("timing it beside the task's own, in turn");
  return InTurn(*this, tested, reply).run();
}

}  // namespace planish
