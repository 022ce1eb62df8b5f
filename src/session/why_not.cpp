#include "session/why_not.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "evaluate/gain.h"
#include "session/plan.h"

namespace planish::session {
namespace {

/// What seemed faster than all that is left and failed its last proof: why nothing was gained, whatever the times of
/// what is left say. Empty where there is none.
std::string failed_final(const ResultDocument& result, const std::vector<Recording::FailedFinal>& finals) {
  for (const Recording::FailedFinal& failed : finals) {
    const auto row = std::ranges::find(result.regions, failed.region, &ResultDocument::Region::id);
    const double kept = row == result.regions.end() ? 0 : row->best_ms;
    if (failed.region != whole_task && (failed.ms <= 0 || (kept > 0 && failed.ms >= kept))) continue;
    const std::string what = failed.region == whole_task ? "what was put together of the fastest kernels"
                                                         : fmt::format("what was fastest for {}", failed.region);
    return fmt::format("{} failed its last proof ({}), and what is left gains nothing: {}", what, name(failed.outcome),
                       failed.message);
  }
  return {};
}

}  // namespace

std::string why_not_faster(const ResultDocument& result, const std::vector<Recording::FailedFinal>& finals) {
  const auto shipped = std::ranges::find(result.times, "shipped", &ClaimTime::name);
  if (shipped != result.times.end() && shipped->error && shipped->error->kind != "out_of_time")
    return fmt::format("what was found and proved could not be timed ({}): {}", shipped->error->kind.name(),
                       shipped->error->message);
  if (auto failed = failed_final(result, finals); !failed.empty()) return failed;
  if (result.speedup_best_baseline <= 0) return "nothing could be timed beside it";
  if (!result.too_noisy.empty()) {
    const auto worst = std::ranges::max_element(result.times, {}, [](const ClaimTime& t) {
      return t.error || t.median_ms <= 0 ? 0 : (t.hi_ms - t.lo_ms) / t.median_ms;
    });
    return fmt::format(
        "too noisy: the times of {} vary by more than {:.0f} % ({} between {:.4g} and {:.4g} ms): time it "
        "again on a quiet machine",
        fmt::join(result.too_noisy, ", "), 100 * noisy_share, worst->name, worst->lo_ms, worst->hi_ms);
  }
  if (result.speedup_best_baseline >= 1) {
    std::string out = fmt::format("the gain over {} is inside the noise", result.best_baseline);
    if (const auto gain = result.gains.find(result.best_baseline); gain != result.gains.end())
      out += fmt::format(": by its times it lies between {:.2f}x and {:.2f}x", gain->second.lo, gain->second.hi);
    return out;
  }
  return fmt::format("{} is faster than what was found ({:.2f}x)", result.best_baseline, result.speedup_best_baseline);
}

std::string interrupted_words(std::string_view phase, bool proved) {
  if (phase == name(Phase::claim) && proved)
    return "interrupted while it was timed: what ships is proved and has no times";
  return fmt::format("interrupted while {}: nothing is proved, and eager ships; what was measured is kept",
                     phase == name(Phase::check)     ? "the captured program was checked"
                     : phase == name(Phase::prepare) ? "PyTorch's form of regions was measured"
                     : phase == name(Phase::compose) ? "the whole program was checked"
                     : phase == name(Phase::ship)    ? "what was found was proved"
                                                     : "eager was timed");
}

}  // namespace planish::session
