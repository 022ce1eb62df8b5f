#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "evaluate/lock.h"
#include "evaluate/task_evaluator.h"

namespace planish {
namespace {

constexpr int pairs = 3;
/// How much longer every run on new contents must take than every run on contents seen before.
constexpr double ratio = 3, difference_ms = 0.05;
constexpr std::uint64_t most_repeats = 6;

}  // namespace

Result<bool> TaskEvaluator::computes_anew(Region& region, Loaded& loaded, Evaluation& evaluation) {
  // Contents are written anew before either run, so that caches and pages are in the same state; all that differs is
  // whether the program has met them before. How often it had is drawn, so that it cannot count its way through.
  PLANISH_TRY(const auto machine, lock_device(device_->facts.uuid, reply_.task_name, limits_.lock));
  std::unique_lock<std::shared_mutex> still;
  if (device_->facts.target == "cpu") still = device_->pool.stand_still();
  const Data& data = region.data.front();
  double fastest_new = std::numeric_limits<double>::infinity(), slowest_known = 0;
  std::string failure;
  const auto run = [&](const std::string& name) -> Result<std::optional<double>> {
    PLANISH_CHECK(oracle_->poison(name, limits_.oracle));
    auto ran = loaded.runner->run(loaded.handle, name, limits_.run);
    if (ran.has_value()) return std::optional(*ran);
    runner_failed(ran.error(), loaded, evaluation.outcome, evaluation.message);
    return std::optional<double>();
  };
  const auto measure = [&](std::uint64_t seed) -> Result<std::optional<double>> {
    PLANISH_TRY(failure, oracle_->refresh(data.name, seed, "task", limits_.oracle));
    if (!failure.empty()) return fail("infrastructure", "the task's own data were refused: " + failure);
    // On other data first: threads are awake and clocks up.
    PLANISH_TRY(const auto woken, run(region.data.back().name));
    if (!woken.has_value()) return woken;
    return run(data.name);
  };
  for (int pair = 0; pair < pairs; ++pair) {
    const std::uint64_t seed = fresh_seed();
    PLANISH_TRY(const auto on_new, measure(seed));
    if (!on_new.has_value()) return false;
    for (std::uint64_t repeat = seed % most_repeats; repeat > 0; --repeat) {
      PLANISH_TRY(const auto again, run(data.name));
      if (!again.has_value()) return false;
    }
    PLANISH_TRY(const auto on_known, measure(seed));
    if (!on_known.has_value()) return false;
    fastest_new = std::min(fastest_new, *on_new);
    slowest_known = std::max(slowest_known, *on_known);
    // Most programs are through with this after one pair.
    if (fastest_new <= ratio * slowest_known || fastest_new - slowest_known <= difference_ms) return true;
  }
  evaluation.outcome = Outcome::time_mismatch;
  evaluation.message = fmt::format(
      "it keeps results: {:.4g} ms at least on new contents, {:.4g} ms at most on contents it has met before",
      fastest_new, slowest_known);
  return false;
}

}  // namespace planish
