#include "evaluate/freshness.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

namespace planish {
namespace {

constexpr int pairs = 3;
/// How much longer every run on new contents must take than every run on contents seen before.
constexpr double ratio = 3, difference_ms = 0.05;
constexpr std::uint64_t most_repeats = 6;

}  // namespace

Result<std::optional<std::string>> keeps_results(const Rerun& rerun) {
  // Contents are written anew before either run, so that caches and pages are in the same state; all that differs is
  // whether the program has met them before. How often it had is drawn, so that it cannot count its way through.
  double fastest_new = std::numeric_limits<double>::infinity(), slowest_known = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    const std::uint64_t seed = rerun.draw();
    PLANISH_TRY(const auto on_new, rerun.on_seed(seed));
    if (!on_new.has_value()) return std::optional<std::string>();
    for (std::uint64_t repeat = seed % most_repeats; repeat > 0; --repeat) {
      PLANISH_TRY(const auto again, rerun.again());
      if (!again.has_value()) return std::optional<std::string>();
    }
    PLANISH_TRY(const auto on_known, rerun.on_seed(seed));
    if (!on_known.has_value()) return std::optional<std::string>();
    fastest_new = std::min(fastest_new, *on_new);
    slowest_known = std::max(slowest_known, *on_known);
    // Most programs are through with this after one pair.
    if (fastest_new <= ratio * slowest_known || fastest_new - slowest_known <= difference_ms)
      return std::optional<std::string>("");
  }
  return std::optional<std::string>(fmt::format(
      "it keeps results: {:.4g} ms at least on new contents, {:.4g} ms at most on contents it has met before",
      fastest_new, slowest_known));
}

}  // namespace planish
