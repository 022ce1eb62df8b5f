#pragma once

#include <cstdint>

namespace planish::session {

/// What a run goes through, in this order.
enum class Phase : std::uint8_t { capture, check, prepare, search, compose, ship, claim };
constexpr int phase_count = 7;

constexpr int number(Phase phase) {
  return static_cast<int>(phase) + 1;
}
/// As the result document's `seconds.in` has it.
constexpr const char* name(Phase phase) {
  constexpr const char* names[phase_count] = {"capture", "check", "prepare", "search", "compose", "ship", "claim"};
  return names[static_cast<int>(phase)];
}

}  // namespace planish::session
