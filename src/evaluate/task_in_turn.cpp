#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/work_scope.h"
#include "evaluate/gain.h"
#include "evaluate/module_data.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"

// On a GPU: a verified module beside the task's own, in turn. What a machine does meanwhile falls on both, and the
// ratios of the rounds say how much that was. Both guests are new: one that has run a proof has memory at hand that
// another has to ask for, and takes twice as long for small results, or half.
namespace planish {
namespace {

/// Order statistics of nine rounds leave out the least and the greatest.
constexpr int most_rounds = 9, least_rounds = 3;
constexpr double turn_seconds = 0.1, all_seconds = 10;

}  // namespace

class TaskEvaluator::InTurn {
 public:
  InTurn(TaskEvaluator& task, const ModuleUnderTest& tested, Guests guests, VerifyReply& reply)
      : task_(task),
        tested_(tested),
        reply_(reply),
        own_{std::move(guests.own), -1},
        original_{std::move(guests.original), -1} {
    request_.data = {tested.data.name};
    request_.flush_bytes = 2 * task.device_->facts.l2_bytes;
    request_.min_runs = 1;
    request_.max_runs = 1000;
    request_.interval = 1e-6;  // all of the turn: what comes and goes shall fall on both sides
    request_.max_seconds = turn_seconds;
  }

  Status run(const std::string& path) {
    PLANISH_TRY(bool ready, load(original_, task_.request_.task, worker::ModuleUse::reference));
    if (!ready) return {};
    PLANISH_TRY(ready, load(own_, path, worker::ModuleUse::run));
    if (!ready) return {};
    const Unbind unbind(own_.runner, tested_.data.name, limits().load);
    const Unbind unbind_original(original_.runner, tested_.data.name, limits().load);
    {
      PLANISH_TRY(auto machine, task_.device_->turn.measure(task_.reply_.task_name, limits().lock));
      PLANISH_TRY(const bool timed, rounds());
      if (!timed) return {};
    }
    PLANISH_CHECK(task_.on_device());
    return settle();
  }

 private:
  struct Side {
    worker::Runner runner;
    std::int64_t handle = -1;
  };

  const Limits& limits() const { return task_.limits_; }

  /// Where the two cannot be timed so nothing is said against the module, and no gain of it.
  bool without(std::string why) {
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

  Result<bool> load(Side& side, const std::string& path, worker::ModuleUse use) {
    const auto greeted = task_.off_device([&] { return side.runner.hello(task_.device_->facts.target); });
    if (!greeted.has_value()) return without(greeted.error());
    const auto loaded = side.runner.load_module(path, task_.request_.task, tested_.graph, limits().open, use);
    if (!loaded.has_value()) return without(loaded.error());
    side.handle = loaded->handle;
    const auto bound = side.runner.bind(side.handle, tested_.data.name, module_bindings(tested_.data), limits().load);
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
    Side& side = own ? own_ : original_;
    // Threads of its own would have the processors that the other one is timed with.
    if (!own) own_.runner.hold();
    const auto timed = side.runner.time(side.handle, request_, turn_seconds + limits().run * 4);
    if (timed.has_value()) {
      ms = timed->median_ms;
      return true;
    }
    if (!own) return without(timed.error());
    if (timed.error().kind == "out_of_time" && work_seconds_left() <= 0) return std::unexpected(timed.error());
    return refuse(outcome_of_runner(timed.error(), side.runner.fault()),
                  "while it was timed: " + timed.error().message);
  }

  Result<bool> rounds() {
    double warm = 0;
    PLANISH_TRY(bool goes_on, turn(false, warm));
    if (goes_on) {
      PLANISH_TRY(goes_on, turn(true, warm));
    }
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
  worker::TimeRequest request_;
  Side own_, original_;
  std::vector<Round> rounds_;
};

void TaskEvaluator::begin_guests(bool own_code) {
  guests_.reset();
  auto own = device_->runners.fresh_torch(own_code);
  auto original = device_->runners.fresh_torch();
  if (own.has_value() && original.has_value()) guests_ = Guests{std::move(*own), std::move(*original)};
}

Status TaskEvaluator::time_in_turn(const ModuleUnderTest& tested, const VerifyRequest& request, VerifyReply& reply) {
  if (!reply.verified || !reply.times.has_value() || !request.beside || reply.times->beside.has_value()) return {};
  if (!guests_.has_value()) {
    reply.times->not_beside = "no processes could be started for it";
    return {};
  }
  report_work("timing it beside the task's own, in turn");
  return InTurn(*this, tested, *std::exchange(guests_, std::nullopt), reply).run(request.path);
}

}  // namespace planish
