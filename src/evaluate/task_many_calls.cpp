#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "base/clock.h"
#include "base/work_scope.h"
#include "evaluate/task_evaluator.h"

// A proof makes some dozens of calls in some seconds. What counts calls, contents or seconds could be right for so
// long.
namespace planish {
namespace {

constexpr int most_contents = 16, most_on_each = 64, calls_on_last = 100'000;
/// For calls that nobody checks, half of it with new contents each few.
constexpr double seconds_of_proof = 1.1, seconds_of_screen = 0.3;
/// As if so many more had been made. Drawn from there to twice as many.
constexpr std::array<int, 2> further_calls{1'000, 1'000'000};

}  // namespace

Status TaskEvaluator::prove_many_calls(const ModuleUnderTest& tested, const VerifyRequest& request,
                                       VerifyReply& reply) {
  PLANISH_CHECK(on_device());
  report_work("calling it many times");
  worker::Runner& runner = tested.runner;
  const bool full = request.level == "full";
  const double budget = full ? seconds_of_proof : seconds_of_screen;
  std::mt19937_64 draw(fresh_seed());
  const auto refuse = [&](const std::string& why) {
    reply.verified = false;
    reply.times.reset();
    reply.message += why;
  };
  int calls = 0;
  // False where it is through, and the reply says why.
  const auto call_it = [&](int wanted, double seconds) -> Result<bool> {
    const auto done = runner.run_often(tested.handle, tested.data.name, wanted, seconds, module_run_limit());
    if (done.has_value()) {
      calls += *done;
      return true;
    }
    PLANISH_CHECK(rejected(runner, done.error(), "its forward", module_run_limit(), reply));
    refuse(fmt::format("\n(after {} calls that nobody checked, behind those of the proof)", calls));
    return false;
  };
  const TimePoint begun = real_clock().now();
  for (int contents = 0; contents < most_contents && (contents == 0 || seconds_since(begun) < budget / 2); ++contents) {
    PLANISH_TRY(const std::string skipped,
                tested.oracle.refresh(tested.data.name, fresh_seed(), "task", limits_.oracle));
    if (!skipped.empty()) break;
    PLANISH_TRY(const bool called, call_it(1 + static_cast<int>(draw() % most_on_each), budget / 2));
    if (!called) return {};
  }
  // However fast it is: what is written into a result a second later is seen, in the first ones that were given away.
  PLANISH_TRY(const bool called, call_it(calls_on_last, std::max(budget / 2, budget - seconds_since(begun))));
  if (!called) return {};
  // Whoever screens looks once, at all of it.
  if (full) {
    PLANISH_TRY(const bool passed, passes_or_is_outvoted(tested, request, "task", 1, reply));
    if (!passed) {
      refuse(fmt::format(
          "\n(it was right in the proof; this was after {} further calls, in the middle of which it may have "
          "been wrong already)",
          calls));
      return {};
    }
  }
  if (request.own_code) return {};
  for (const int least : further_calls) {
    const int further = least + static_cast<int>(draw() % static_cast<unsigned>(least));
    const auto moved = runner.wind(tested.handle, further, limits_.load);
    if (!moved.has_value()) {
      PLANISH_CHECK(rejected(runner, moved.error(), "moving its clocks on", limits_.load, reply));
      refuse("");
      return {};
    }
    PLANISH_TRY(const bool passed, passes_or_is_outvoted(tested, request, "task", 1, reply));
    if (!passed) {
      refuse(
          fmt::format("\n(it was right in the proof; this was {} calls later{}, with its clocks turned on by years{})",
                      calls, moved->empty() ? "" : fmt::format(" and as if {} more had been made", further),
                      moved->empty() ? "" : fmt::format("; it counts in {}", fmt::join(*moved, ", "))));
      return {};
    }
    if (moved->empty() || !full) break;
  }
  return {};
}

}  // namespace planish
