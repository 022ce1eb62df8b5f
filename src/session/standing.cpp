#include "session/standing.h"

#include <fmt/format.h>

#include <algorithm>

namespace planish::session {
namespace {

/// Both were measured briefly, and by different callers, of which one submits steps one by one from Python: less than
/// this apart says nothing. On a machine that did other work, 1.4 times was seen where the search gained.
constexpr double margin = 1.3;
/// Times of one thing that are further apart than this were not measured at rest; half of what the margin allows.
constexpr double steady = 1.15;

double kept_ms(const Standing& s) {
  return s.whole.least_ms - s.regions_ms;
}

}  // namespace

void TimeRange::saw(double lo_ms, double hi_ms) {
  least_ms = times == 0 ? lo_ms : std::min(least_ms, lo_ms);
  most_ms = std::max(most_ms, hi_ms);
  ++times;
}

std::string cannot_win(const Standing& s) {
  if (s.kept_steps <= 0 || s.whole.least_ms <= 0 || s.eager.most_ms <= 0) return {};
  if (kept_ms(s) <= margin * s.eager.most_ms) return {};
  return fmt::format(
      "the search cannot win: {} step{} stay PyTorch's and take {:.3g} ms by themselves, where eager takes {:.3g} ms "
      "for all of it (each measured {} times in turn)",
      s.kept_steps, s.kept_steps == 1 ? "" : "s", kept_ms(s), s.eager.most_ms, std::min(s.whole.times, s.eager.times));
}

std::string unsteady(const Standing& s) {
  if (s.whole.most_ms <= steady * s.whole.least_ms && s.eager.most_ms <= steady * s.eager.least_ms) return {};
  return fmt::format(
      "the machine is busy: measured in turn, PyTorch's steps took {:.3g} to {:.3g} ms and eager {:.3g} to {:.3g} ms",
      s.whole.least_ms, s.whole.most_ms, s.eager.least_ms, s.eager.most_ms);
}

}  // namespace planish::session
