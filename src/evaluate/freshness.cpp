#include "evaluate/freshness.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

namespace planish {
namespace {

/// Were new and known contents alike, all new runs would be slower than all known ones once in C(16, 8) = 12,870 times;
/// they must also be slower by this ratio and difference, which covers branches and caches that remember contents.
constexpr int pairs = 8;
constexpr double ratio = 1.25, difference_ms = 0.05;
constexpr std::uint64_t most_repeats = 6;

/// Both ends of what was seen so far.
struct Seen {
  double fastest_new = std::numeric_limits<double>::infinity();
  double slowest_known = 0;

  [[nodiscard]] bool alike() const {
    return fastest_new <= ratio * slowest_known || fastest_new - slowest_known <= difference_ms;
  }
};

/// One run of each kind; false where a run failed. `known`: contents of the pair before, to be run before the new ones;
/// without it the new ones become the known ones.
Result<bool> run_pair(const Rerun& rerun, std::uint64_t seed, std::optional<std::uint64_t> known, Seen& seen) {
  const auto run_known = [&](std::uint64_t which) -> Result<bool> {
    PLANISH_TRY(const auto ms, rerun.on_seed(which));
    seen.slowest_known = std::max(seen.slowest_known, ms.value_or(0));
    return ms.has_value();
  };
  if (known.has_value()) {
    PLANISH_TRY(const bool ran, run_known(*known));
    if (!ran) return false;
  }
  PLANISH_TRY(const auto on_new, rerun.on_seed(seed));
  if (!on_new.has_value()) return false;
  seen.fastest_new = std::min(seen.fastest_new, *on_new);
  for (std::uint64_t repeat = seed % most_repeats; repeat > 0; --repeat) {
    PLANISH_TRY(const auto again, rerun.again());
    if (!again.has_value()) return false;
  }
  if (known.has_value()) return true;
  return run_known(seed);
}

}  // namespace

Result<std::optional<std::string>> keeps_results(const Rerun& rerun) {
  // Contents are written anew before either run, so that caches and pages are in the same state; all that differs is
  // whether the program has met them before. How often it had is drawn, so that it cannot count its way through.
  // Which comes first is drawn too, so that clocks that rise or fall speak for neither: the first pair can only begin
  // with the new contents, the second begins with known ones.
  Seen seen;
  std::uint64_t before = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    const std::uint64_t seed = rerun.draw();
    const bool known_first = pair == 1 || (pair > 1 && (seed / most_repeats) % 2 == 0);
    PLANISH_TRY(const bool ran, run_pair(rerun, seed, known_first ? std::optional(before) : std::nullopt, seen));
    if (!ran) return std::optional<std::string>();
    // Most programs are through with this after one pair.
    if (seen.alike()) return std::optional<std::string>("");
    before = seed;
  }
  return std::optional<std::string>(fmt::format(
      "it keeps results: {:.4g} ms at least on new contents, {:.4g} ms at most on contents it has met before",
      seen.fastest_new, seen.slowest_known));
}

}  // namespace planish
