#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "backend/backend.h"
#include "base/clock.h"
#include "evaluate/freshness.h"
#include "evaluate/task_evaluator.h"

namespace planish {

Result<bool> TaskEvaluator::computes_anew(Region& region, Loaded& loaded, Evaluation& evaluation) {
  PLANISH_TRY(const auto machine, device_->turn.measure(reply_.task_name, limits_.lock));
  const bool on_host = backend::named(device_->facts.target).on_host;
  std::unique_lock<std::shared_mutex> still;
  if (on_host) still = device_->pool.stand_still();
  Data& data = region.data.front();
  // On the host its own clock is that of a process that the program shares.
  double least = std::numeric_limits<double>::infinity();
  const auto run = [&](const std::string& name) -> Result<std::optional<double>> {
    PLANISH_CHECK(oracle_->poison(name, limits_.oracle));
    const TimePoint start = real_clock().now();
    auto ran = loaded.runner->run(loaded.handle, name, limits_.run);
    if (ran.has_value()) {
      const double ms = on_host ? 1000 * seconds_since(start) : *ran;
      least = std::min(least, ms);
      return std::optional(ms);
    }
    runner_failed(ran.error(), loaded, evaluation.outcome, evaluation.message);
    return std::optional<double>();
  };
  const auto on_seed = [&](std::uint64_t seed) -> Result<std::optional<double>> {
    PLANISH_TRY(const std::string refused, oracle_->refresh(data.name, seed, "task", limits_.oracle));
    if (!refused.empty()) return fail("infrastructure", "the task's own data were refused: " + refused);
    data.seed = seed;
    data.uses = 1;
    // On other data first: threads are awake and clocks up.
    PLANISH_TRY(const auto woken, run(region.data.back().name));
    if (!woken.has_value()) return woken;
    return run(data.name);
  };
  PLANISH_TRY(auto why, keeps_results({[this] { return fresh_seed(); }, on_seed, [&] { return run(data.name); }}));
  if (!why.has_value()) return false;
  // Single runs wake threads up and find caches cold.
  constexpr double disagreement = 3, slack_ms = 0.5;
  const auto slower = [&] {
    return on_host && evaluation.bench && least > disagreement * evaluation.bench->median_ms + slack_ms;
  };
  // Where others hold the cores a run waits for its turn, longer than a short program takes: one of some more finds a
  // core free. Contents are new each time, so that nothing can be kept for them.
  constexpr int most_more = 16;
  for (int more = 0; why->empty() && slower() && more < most_more; ++more) {
    PLANISH_TRY(const auto ran, on_seed(fresh_seed()));
    if (!ran.has_value()) return false;
  }
  if (why->empty() && slower()) {
    *why = fmt::format("it says that a run takes {:.4g} ms; the fastest of some took {:.4g} ms by our clock",
                       evaluation.bench->median_ms, least);
  }
  if (why->empty()) return true;
  evaluation.outcome = Outcome::time_mismatch;
  evaluation.message = std::move(*why);
  return false;
}

}  // namespace planish
