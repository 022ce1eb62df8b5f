#include "session/standing.h"

#include <fmt/format.h>

namespace planish::session {
namespace {

/// Both were measured briefly, and by different callers, of which one submits steps one by one from Python: less than
/// this apart says nothing. On a machine that did other work, 1.4 times was seen where the search gained.
constexpr double margin = 1.3;

}  // namespace

std::string cannot_win(const Standing& s) {
  if (s.kept_steps <= 0 || s.whole_ms <= 0 || s.eager_ms <= 0) return {};
  const double kept_ms = s.whole_ms - s.regions_ms;
  if (kept_ms <= margin * s.eager_hi_ms || kept_ms <= margin * s.eager_ms) return {};
  return fmt::format(
      "the search cannot win: {} step{} stay PyTorch's and take {:.3g} ms by themselves, where eager takes {:.3g} ms "
      "for all of it",
      s.kept_steps, s.kept_steps == 1 ? "" : "s", kept_ms, s.eager_ms);
}

}  // namespace planish::session
