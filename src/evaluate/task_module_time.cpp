#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/work_scope.h"
#include "evaluate/call_times.h"
#include "evaluate/floor.h"
#include "evaluate/freshness.h"
#include "evaluate/module_data.h"
#include "evaluate/outcome_of.h"
#include "evaluate/results_of.h"
#include "evaluate/task_evaluator.h"

namespace planish {
namespace {

constexpr const char* second_set = "verify1";
/// A module may say of a GPU that a call takes so many times less than single, checked ones do by our clock: these have
/// the host's part before the GPU's. Another process can only disturb either side for so long: all of `rounds` must
/// disagree.
constexpr double disagreement = 2, slack_ms = 0.1;
constexpr int rounds = 3, calls_a_round = 3;
/// Messages take a guest so long at most: what it says of them itself cannot be subtracted.
constexpr double messages_ms = 0.1;
/// Of a processor, while all of it is stopped: what stands still uses none.
constexpr double still_ms = 0.05;
/// Single calls on the host: so many, fewer where each takes long with its contents and its check.
constexpr std::size_t least_calls = 6, least_long_calls = 4, most_calls = 40;
constexpr double interval = 0.03, enough_seconds = 3, long_seconds = 2;

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
    using Step = Result<bool> (ModuleTiming::*)();
    const std::initializer_list<Step> on_host{&ModuleTiming::time_calls, &ModuleTiming::computes_anew};
    const std::initializer_list<Step> on_gpu{&ModuleTiming::time, &ModuleTiming::wrote_what_is_right,
                                             &ModuleTiming::computes_anew};
    for (const Step step : on_host_ ? on_host : on_gpu) {
      PLANISH_TRY(goes_on, (this->*step)());
      if (!goes_on) return {};
    }
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
    sets_ = {&tested_.data};
    constexpr double share = 0.1;
    if (static_cast<double>(tested_.data.bytes()) < share * static_cast<double>(task_.device_->facts.memory_bytes)) {
      PLANISH_TRY(second_, tested_.oracle.make("task", second_set, task_.fresh_seed(), "task", limits().oracle,
                                               tested_.own_state));
      auto bound = tested_.runner.bind(tested_.handle, second_set, module_bindings(second_), limits().load);
      if (!bound.has_value()) return failed(bound.error());
      sets_.push_back(&second_);
    }
    PLANISH_CHECK(refresh(task_.fresh_seed()));
    for (const worker::DataSet* set : sets_) PLANISH_CHECK(tested_.oracle.poison(set->name, limits().oracle));
    return true;
  }

  // -- on the host: single calls by our clock alone --

  /// The process of ours that the task's own model runs in, with the same buffers.
  struct Yardstick {
    worker::Runner& runner;
    std::int64_t handle;
    Unbind first, second;
    Yardstick(worker::Runner& process, std::int64_t model, const std::string& data, double limit)
        : runner(process), handle(model), first(process, data, limit), second(process, second_set, limit) {}
  };

  Status bind(const Yardstick& yardstick) {
    for (const worker::DataSet* set : sets_)
      PLANISH_CHECK(yardstick.runner.bind(yardstick.handle, set->name, module_bindings(*set), limits().load));
    return {};
  }

  /// One call of what is prepared; nothing where it failed, and the reply says why.
  Result<std::optional<double>> rung(worker::Runner& runner, const std::string& name, bool take) {
    auto call = runner.call_now(limits().run);
    if (!call.has_value()) return gave_up(call.error());
    Status taken;
    if (take && !stores_ && call->results != "failed") taken = take_results(call->process, call->results, set_of(name));
    // What goes on all the same could have seen the contents before it was rung for, or write what is read now.
    worked_ms_ = std::max({worked_ms_, call->worked_ms, runner.worked_while_stopped_ms()});
    auto finished = runner.finish_call(limits().run);
    if (!finished.has_value()) return gave_up(finished.error());
    // Threads of its own would have the processors and caches that ours is timed with.
    runner.hold();
    if (taken.has_value()) return std::optional(call->ms);
    // Where the system lets nobody read another process's memory the calls store what they made, which then counts.
    if (taken.error().kind == "infrastructure") return std::unexpected(taken.error());
    if (taken.error().kind != "unsupported") return gave_up(taken.error());
    stores_ = true;
    return std::optional<double>(-1);
  }

  Result<std::optional<double>> gave_up(const Error& error) {
    run_error_ = error;
    return std::optional<double>();
  }

  const worker::DataSet& set_of(const std::string& name) const { return name == second_set ? second_ : tested_.data; }

  /// The module is awake, waits for the bell and is stopped: what is written from now on it has not seen.
  Result<bool> waits() {
    if (sets_.size() > 1) {
      PLANISH_TRY(const auto woken, run_once(second_set));
      if (!woken.has_value()) return false;
    }
    const auto waits = tested_.runner.prepare_call(tested_.handle, tested_.data.name,
                                                   {.empty = false, .store = stores_}, limits().run);
    if (!waits.has_value()) run_error_ = waits.error();
    return waits.has_value();
  }

  /// The same of ours. What it says of itself is believed; its failure is no module's fault.
  Status ours_waits(const Yardstick& yardstick, bool empty) {
    if (!empty && sets_.size() > 1) PLANISH_CHECK(yardstick.runner.run(yardstick.handle, second_set, limits().run));
    PLANISH_CHECK(yardstick.runner.prepare_call(yardstick.handle, tested_.data.name,
                                                {.empty = empty, .store = stores_ && !empty}, limits().run));
    ours_waiting_ = true;
    return {};
  }

  Result<double> ours(const Yardstick& yardstick) {
    ours_waiting_ = false;
    PLANISH_TRY(const auto call, yardstick.runner.call_now(limits().run));
    PLANISH_CHECK(yardstick.runner.finish_call(limits().run));
    return call.ms;
  }

  struct Released {
    ModuleTiming& timing;
    const Yardstick& yardstick;
    Released(ModuleTiming& of, const Yardstick& which) : timing(of), yardstick(which) {}
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;
    ~Released() {
      if (timing.ours_waiting_) (void)timing.ours(yardstick);
    }
  };

  /// The module's call. False where that failed.
  Result<bool> theirs() {
    if (stores_) PLANISH_CHECK(tested_.oracle.poison(tested_.data.name, limits().oracle));
    PLANISH_TRY(const auto ms, rung(tested_.runner, tested_.data.name, true));
    if (!ms.has_value()) return false;
    samples_.solution.push_back(*ms);
    return stood_still();
  }

  Result<bool> stood_still() {
    return worked_ms_ <= still_ms ||
           refuse(
               Outcome::time_mismatch,
               fmt::format("it worked for {:.3g} ms of a processor while it was stopped, when its data were written or "
                           "its results read: something wakes it up (a timer, a process beside it)",
                           worked_ms_));
  }

  /// Both in the same way: woken, stopped, then one call each on new contents, in an order that is drawn, as whoever is
  /// second finds them in caches; nothing is compared in between, which would leave other things there. False where the
  /// module failed.
  Result<bool> call_each(const Yardstick& yardstick) {
    const std::uint64_t seed = task_.fresh_seed();
    const bool ours_first = (seed >> 7U) % 2 == 0;
    // Ours is there for the next solution, and must not be left waiting where this one fails.
    const Released released{*this, yardstick};
    if (ours_first) PLANISH_CHECK(ours_waits(yardstick, false));
    PLANISH_TRY(const bool waiting, waits());
    if (!waiting) return false;
    if (!ours_first) PLANISH_CHECK(ours_waits(yardstick, false));
    PLANISH_CHECK(refresh(seed));
    if (!ours_first) {
      PLANISH_TRY(const bool called, theirs());
      if (!called) return false;
      // What ours stores would take its place.
      if (stores_ && samples_.solution.back() >= 0) {
        PLANISH_TRY(const bool right, is_right());
        if (!right) return false;
      }
    }
    PLANISH_TRY(const double reference, ours(yardstick));
    samples_.reference.push_back(reference);
    if (ours_first) {
      PLANISH_TRY(const bool called, theirs());
      if (!called) return false;
    }
    // Nothing was stored: all of it once more, in the way that needs no reading.
    if (samples_.solution.back() < 0) {
      samples_ = {.solution = {}, .reference = {}, .empty = {}, .hot_ms = samples_.hot_ms};
      return true;
    }
    if (ours_first || !stores_) {
      PLANISH_TRY(const bool right, is_right());
      if (!right) return false;
    }
    for (int k = 0; k < 2; ++k) {
      PLANISH_CHECK(ours_waits(yardstick, true));
      PLANISH_TRY(const double nothing, ours(yardstick));
      samples_.empty.push_back(nothing);
    }
    return true;
  }

  Result<bool> is_right() {
    PLANISH_TRY(auto check, tested_.oracle.check(tested_.data.name, "full", limits().oracle));
    judge_again(check, outputs_of(tested_.data));
    return check.ok ||
           refuse(Outcome::wrong_when_timed,
                  fmt::format("outputs of a timed call: {}", check.message.empty() ? check.problem : check.message));
  }

  Result<bool> time_calls() {
    PLANISH_TRY(const std::int64_t handle, task_.yardstick(tested_));
    const Yardstick yardstick(*task_.yardstick_, handle, tested_.data.name, limits().load);
    PLANISH_CHECK(bind(yardstick));
    PLANISH_TRY(const auto alone, be_alone());
    tested_.runner.hold();
    PLANISH_TRY(const auto hot, yardstick.runner.time(handle, in_a_row(200, 0.5), limits().run * 4));
    samples_.hot_ms = hot.median_ms;
    const TimePoint start = real_clock().now();
    while (samples_.solution.size() < most_calls) {
      PLANISH_TRY(const bool goes_on, call_each(yardstick));
      if (!goes_on) return run_error_ ? failed(*run_error_) : Result<bool>(false);
      const double seconds = seconds_since(start);
      const auto done = samples_.solution.size();
      if (done >= least_calls && (settled(samples_.solution, interval) || seconds > enough_seconds)) break;
      if (done >= least_long_calls && seconds > long_seconds * static_cast<double>(least_long_calls)) break;
    }
    if (auto why = too_soon(samples_); !why.empty()) return refuse(Outcome::time_mismatch, std::move(why));
    times_ = times_of(samples_);
    return is_possible(times_.median_ms);
  }

  // -- on a GPU: by its own clock, and by ours --

  /// Not faster than the device can be. Where both clocks disagree, what a call of ours takes by the one outside beside
  /// its work, on this machine, is no sign of anything.
  Result<bool> time() {
    stores_ = true;
    PLANISH_TRY(auto mismatch, disagreement_of(slack_ms));
    if (mismatch.has_value() && !mismatch->empty()) {
      PLANISH_TRY(const double beside, beside_work());
      PLANISH_TRY(mismatch, disagreement_of(slack_ms + beside));
    }
    if (!mismatch.has_value()) return run_error_ ? failed(*run_error_) : Result<bool>(false);
    return mismatch->empty() ? is_possible(times_.median_ms) : refuse(Outcome::time_mismatch, std::move(*mismatch));
  }

  /// Calls that take the sets in turn; on a GPU with its caches emptied between them.
  worker::TimeRequest in_a_row(std::int64_t most, double seconds) const {
    worker::TimeRequest request;
    for (const worker::DataSet* set : sets_) request.data.push_back(set->name);
    if (!on_host_) request.flush_bytes = 2 * task_.device_->facts.l2_bytes;
    request.max_runs = most;
    request.max_seconds = seconds;
    return request;
  }

  /// How the module's clock and ours disagree in every round, but for `slack` milliseconds; empty where they do not,
  /// nothing where the module is through.
  Result<std::optional<std::string>> disagreement_of(double slack) {
    PLANISH_TRY(const auto alone, be_alone());
    const worker::TimeRequest request = in_a_row(200, 2);
    std::string mismatch;
    for (int round = 0; round < rounds; ++round) {
      const TimePoint start = real_clock().now();
      auto timed = tested_.runner.time(tested_.handle, request, request.max_seconds + limits().run * 4);
      if (!timed.has_value()) {
        run_error_ = timed.error();
        return std::optional<std::string>();
      }
      mismatch = time_mismatch(*timed, seconds_since(start));
      times_.median_ms = timed->median_ms;
      times_.lo_ms = timed->lo_ms;
      times_.hi_ms = timed->hi_ms;
      times_.host_us = timed->host_us;
      times_.samples_ms = std::move(timed->samples_ms);
      // A call may return before its work is done, and the host be the slower of the two.
      const double own_ms = std::max(times_.median_ms, times_.host_us / 1000);
      PLANISH_TRY(const auto outside, time_from_outside());
      if (!outside.has_value()) return std::optional<std::string>();
      times_.outside_ms = *outside;
      if (mismatch.empty() && times_.outside_ms > disagreement * own_ms + copying_ms(own_ms) + slack) {
        mismatch = fmt::format("it says that a call takes {:.4g} ms; single calls took {:.4g} ms at least by our clock",
                               own_ms, times_.outside_ms);
      }
      if (mismatch.empty()) break;
    }
    return std::optional(std::move(mismatch));
  }

  /// By how much a single, checked call of the task's own model, in a process of ours, takes longer by our clock than
  /// in a row: waking up, messages, a host and a device that were idle. Milliseconds.
  Result<double> beside_work() {
    PLANISH_TRY(const std::int64_t handle, task_.yardstick(tested_));
    const Yardstick yardstick(*task_.yardstick_, handle, tested_.data.name, limits().load);
    PLANISH_CHECK(bind(yardstick));
    PLANISH_TRY(const auto alone, be_alone());
    tested_.runner.hold();
    PLANISH_TRY(const auto hot, yardstick.runner.time(handle, in_a_row(100, 0.5), limits().run * 4));
    double least = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < rounds * calls_a_round; ++repeat) {
      PLANISH_CHECK(ours_waits(yardstick, false));
      PLANISH_CHECK(refresh(task_.fresh_seed()));
      PLANISH_TRY(const double ms, ours(yardstick));
      least = std::min(least, ms);
    }
    return std::max(0.0, least - std::max(hot.median_ms, hot.host_us / 1000));
  }

  /// Results are copied before a call is answered, which is nearly nothing beside what makes them, but where they are
  /// much larger than what is read.
  double copying_ms(double own_ms) const {
    const double bandwidth = task_.device_->facts.bandwidth_gbs;
    if (bandwidth <= 0) return 0;
    return std::max(0.0, 2 * needed_work_of(task_.graph_).output_bytes / (bandwidth * 1e6) - own_ms);
  }

  /// The least of some calls on new contents, each checked: milliseconds by our clock until the results are there.
  Result<std::optional<double>> time_from_outside() {
    double least = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < calls_a_round; ++repeat) {
      PLANISH_TRY(const auto ms, call_on(task_.fresh_seed()));
      if (!ms.has_value()) return ms;
      PLANISH_TRY(const bool right, is_right());
      if (!right) return std::optional<double>();
      least = std::min(least, *ms);
    }
    return std::optional(std::max(0.0, least - messages_ms));
  }

  Result<bool> is_possible(double median_ms) {
    // What constants answer needs no work but to write them.
    NeededWork needed = needed_work_of(task_.graph_);
    if (!reply_.degenerate.empty()) needed = {.output_bytes = needed.output_bytes};
    std::string why = faster_than_possible(task_.device_->facts, needed, median_ms);
    return why.empty() || refuse(Outcome::faster_than_possible, std::move(why));
  }

  Result<bool> wrote_what_is_right() {
    // Where somebody began to measure at the very end of the timing, that is over first.
    PLANISH_CHECK(task_.device_->turn.begin(task_.reply_.task_name, limits().lock));
    if (sets_.size() < 2) return true;  // the last single call's were checked
    PLANISH_TRY(auto check, tested_.oracle.check(second_set, "full", limits().oracle));
    judge_again(check, outputs_of(second_));
    return check.ok ||
           refuse(Outcome::wrong_when_timed,
                  fmt::format("outputs of a timed call: {}", check.message.empty() ? check.problem : check.message));
  }

  /// Whether new contents take it about as long as contents it has met before. Known only where there are two sets.
  Result<bool> computes_anew() {
    if (sets_.size() < 2) return true;
    // Where the task is a module, new contents cost the oracle runs of it that known ones do not, and whoever is called
    // after those finds other things in the caches. On the host no timed call met contents twice anyway.
    if (on_host_ && !task_.graph_.refusal().empty()) return true;
    PLANISH_TRY(const auto alone, be_alone());
    PLANISH_TRY(auto why, keeps_results({[this] { return task_.fresh_seed(); },
                                         [this](std::uint64_t seed) { return call_on(seed); },
                                         [this] { return call_on(std::nullopt); }}));
    if (!why.has_value()) return failed(*run_error_);
    PLANISH_TRY(const bool still, stood_still());
    if (!still) return false;
    return why->empty() || refuse(Outcome::time_mismatch, std::move(*why));
  }

  /// Milliseconds by our clock of one call on these contents, which it has not seen written; without a seed on what is
  /// there.
  Result<std::optional<double>> call_on(std::optional<std::uint64_t> seed) {
    PLANISH_TRY(const bool waiting, waits());
    if (!waiting) return std::optional<double>();
    if (seed.has_value()) {
      PLANISH_CHECK(refresh(*seed));
    } else {
      PLANISH_CHECK(tested_.oracle.poison(tested_.data.name, limits().oracle));
    }
    return rung(tested_.runner, tested_.data.name, false);
  }

  /// To wake it up.
  Result<std::optional<double>> run_once(const std::string& name) {
    PLANISH_CHECK(tested_.oracle.poison(name, limits().oracle));
    const TimePoint start = real_clock().now();
    auto ran = tested_.runner.run(tested_.handle, name, limits().run);
    if (ran.has_value()) return std::optional(1000 * seconds_since(start));
    return gave_up(ran.error());
  }

  TaskEvaluator& task_;
  const ModuleUnderTest& tested_;
  VerifyReply& reply_;
  const bool on_host_;
  worker::DataSet second_;
  std::vector<const worker::DataSet*> sets_;
  bool ours_waiting_ = false;
  double worked_ms_ = 0;  ///< the most that it did while it was stopped
  bool stores_ = false;   ///< calls write their results to the bound outputs before they answer
  CallSamples samples_;
  ModuleTimes times_;
  std::optional<Error> run_error_;
};

Result<std::int64_t> TaskEvaluator::yardstick(const ModuleUnderTest& tested) {
  if (!yardstick_.has_value() || !yardstick_->running()) {
    yardstick_.reset();
    PLANISH_TRY(auto runner, device_->runners.fresh_torch());
    PLANISH_CHECK(off_device([&] { return runner.hello(device_->facts.target); }));
    yardstick_ = std::move(runner);
    yardstick_handle_.reset();
  }
  // Constants that a task draws at random differ from capture to capture.
  if (!yardstick_handle_.has_value() || yardstick_graph_ != tested.graph) {
    if (yardstick_handle_.has_value()) (void)yardstick_->unload(*yardstick_handle_, limits_.load);
    yardstick_handle_.reset();
    PLANISH_TRY(const auto module, yardstick_->load_module(request_.task, request_.task, tested.graph, limits_.open,
                                                           worker::ModuleUse::reference));
    yardstick_handle_ = module.handle;
    yardstick_graph_ = tested.graph;
  }
  return *yardstick_handle_;
}

Status TaskEvaluator::time_module(const ModuleUnderTest& tested, VerifyReply& reply) {
  return ModuleTiming(*this, tested, reply).run();
}

}  // namespace planish
