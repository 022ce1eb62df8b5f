#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "backend/backend.h"
#include "base/work_scope.h"
#include "evaluate/module_data.h"
#include "evaluate/outcome_of.h"
#include "evaluate/task_evaluator.h"

// One data set of a proof: a module runs on it, and the oracle compares.
namespace planish {
namespace {

/// What may be the matter with a solution that was right before.
constexpr const char* parameters_are_drawn =
    "\n(on earlier data it was right: the parameters are others on each. What is made of them, packed weights say, "
    "must "
    "be made again where they are: a parameter is another where its data_ptr() or its _version is)";

}  // namespace

bool TaskEvaluator::draws_parameters(const ModuleUnderTest& tested) const {
  return !tested.own_state &&
         std::ranges::any_of(graph_.inputs, [](const ir::GraphInput& input) { return input.kind == "param"; });
}

Status TaskEvaluator::rejected(worker::Runner& runner, const Error& error, const char* doing, double limit,
                               VerifyReply& reply) {
  if (error.kind == "out_of_time" && work_seconds_left() <= 0) return std::unexpected(error);
  // A foreign module may say that as well: a new process on the device knows better.
  if (is_device_failure(error) && !backend::named(device_->facts.target).on_host) {
    device_->runners.discard(worker::Runner::Kind::native);
    if (!device_->runners.get(worker::Runner::Kind::native).has_value()) return device_lost(error.message);
  }
  reply.outcome = is_device_failure(error) ? Outcome::launch_failed : outcome_of_runner(error, runner.fault());
  reply.message = error.message;
  if (error.kind == "hang" && !error.hint.empty()) {
    reply.message = fmt::format("{}: {}; {}", doing, error.message, error.hint);
  } else if (error.kind == "hang") {
    reply.message = fmt::format("{} did not end within {:g} s (--task-timeout SECONDS allows more)", doing, limit);
  }
  for (const std::string& cause : error.causes) reply.message += "\n" + cause;
  return {};
}

std::optional<std::string> TaskEvaluator::written_input(const ModuleUnderTest& tested, const VerifyRequest& request) {
  report_work("running it once more, on copies of its inputs");
  auto other = device_->runners.fresh_torch();
  if (!other.has_value() || !off_device([&] { return other->hello(device_->facts.target); }).has_value())
    return std::nullopt;
  const auto loaded =
      other->load_module(request.path, request_.task, tested.graph, limits_.open, worker::ModuleUse::rehearse);
  if (!loaded.has_value() ||
      !other->bind(loaded->handle, tested.data.name, module_bindings(tested.data), limits_.load).has_value())
    return std::nullopt;
  const auto ran = other->run(loaded->handle, tested.data.name, module_run_limit());
  if (ran.has_value() || ran.error().kind != "input_write") return std::nullopt;
  return ran.error().message;
}

double TaskEvaluator::module_run_limit() const {
  // Whoever waits for a task so long waits as long for what is to replace it.
  return std::min(limits_.run * 4, limits_.open);
}

Result<bool> TaskEvaluator::passes(const ModuleUnderTest& tested, const VerifyRequest& request,
                                   const std::string& regime, int repeats, VerifyReply& reply) {
  worker::Oracle& oracle = tested.oracle;
  const std::string& data = tested.data.name;
  TestCase item;
  item.seed = fresh_seed();
  item.regime = regime;
  item.variant = tested.variant;
  PLANISH_TRY(const std::string skipped, oracle.refresh(data, item.seed, regime, limits_.oracle));
  if (!skipped.empty()) {
    reply.skipped[regime] = skipped;
    return true;
  }
  const std::string where = tested.variant > 0 ? fmt::format("other shapes, the {}. of get_input_variants(), seed {}",
                                                             tested.variant, item.seed)
                                               : fmt::format("regime {}, seed {}", regime, item.seed);
  std::optional<worker::CheckReply> first;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    PLANISH_CHECK(oracle.poison(data, limits_.oracle));
    auto ran = tested.runner.run(tested.handle, data, module_run_limit());
    if (!ran.has_value()) {
      item.ok = false;
      item.problem = ran.error().kind.name();
      reply.cases.push_back(std::move(item));
      PLANISH_CHECK(rejected(tested.runner, ran.error(), "its forward", module_run_limit(), reply));
      // Inputs are mapped read-only: who writes one dies of it, and only a run on copies tells that from other faults.
      if (reply.outcome == Outcome::crash || reply.outcome == Outcome::illegal_address) {
        if (auto written = written_input(tested, request); written.has_value()) {
          reply.outcome = Outcome::input_write;
          reply.message = std::move(*written);
        }
      }
      if (tested.variant > 0) reply.message = fmt::format("{}: {}", where, reply.message);
      return false;
    }
    PLANISH_TRY(auto check, oracle.check(data, "full", limits_.oracle, true));
    if (check.problem == "finite_only" && request.finite_only) {
      check.ok = true;
      check.problem.clear();
      item.finite_only = true;
    }
    judge_again(check, outputs_of(tested.data));
    enter(item, check);
    if (!check.ok) {
      reply.outcome = repeat == 0 ? outcome_of_check(check) : Outcome::nondeterministic;
      reply.message = fmt::format("{}: {}", where, check.message.empty() ? check.problem : check.message);
      if (!reply.cases.empty() && repeat == 0 && draws_parameters(tested)) reply.message += parameters_are_drawn;
      break;
    }
    ++item.runs;
    if (first.has_value() && first->digest != check.digest) item.same_bits = false;
    if (first.has_value() && repeats_disagree(*first, check)) {
      item.ok = false;
      reply.outcome = Outcome::nondeterministic;
      reply.message = fmt::format("{}: two runs differ by more than rounding", where);
      break;
    }
    first = std::move(check);
  }
  // Its own runs first: eager is asked only where there is something to compare with.
  if (!item.same_bits && !reply.eager_same_bits) {
    PLANISH_TRY(reply.eager_same_bits, oracle.repeat(data, limits_.oracle));
  }
  const bool ok = item.ok;
  reply.cases.push_back(std::move(item));
  return ok;
}

Result<bool> TaskEvaluator::passes_or_is_outvoted(const ModuleUnderTest& tested, const VerifyRequest& request,
                                                  const std::string& regime, int repeats, VerifyReply& reply) {
  PLANISH_TRY(const bool passed, passes(tested, request, regime, repeats, reply));
  if (reply.cases.empty() || reply.skipped.contains(regime)) return passed;
  const std::size_t first = reply.cases.size() - 1;
  if (!is_near_gate(reply.cases[first]) || (!passed && reply.outcome != Outcome::wrong)) return passed;
  int right = passed ? 1 : 0;
  const Outcome outcome = reply.outcome;
  const std::string message = reply.message;
  for (int further = 0; further < 2; ++further) {
    PLANISH_TRY(const bool again, passes(tested, request, regime, 1, reply));
    // What is no near miss is one too many.
    if (!again && !is_near_gate(reply.cases.back())) return false;
    right += again ? 1 : 0;
  }
  if (right < 2) {
    // The first says what is wrong, unless it was right itself.
    if (!passed) {
      reply.outcome = outcome;
      reply.message = message;
    }
    return false;
  }
  for (std::size_t i = first; i < reply.cases.size(); ++i) reply.cases[i].outvoted = !reply.cases[i].ok;
  reply.message.clear();
  return true;
}

}  // namespace planish
