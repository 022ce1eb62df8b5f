#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "coder/coder.h"
#include "coder/model_pool.h"

namespace planish::coder {

/// How models in a seat work on a region.
enum class Approach : std::uint8_t {
  converse,  ///< turn after turn, each with what became of the last, until the search ends: beside the built-in coder
  one_shot,  ///< one answer
  refine,    ///< the same conversation for so many turns
  samples,   ///< independent answers to the same question
  ideas,     ///< ideas in words first, then programs of them; the best idea is where the next ones begin
  roles      ///< a planner that looks patterns up, a coder, a debugger for what fails
};
inline constexpr std::array<std::string_view, 6> approach_names{"converse", "one-shot", "refine",
                                                                "samples",  "ideas",    "roles"};
std::string_view name(Approach approach);
/// Nothing where there is none of that name.
std::optional<Approach> approach_from_name(std::string_view text);
/// Answers that a seat asks for in a region where nobody says how many; 0: as long as the search lasts.
int usual_turns(Approach approach);

/// Language models in a seat. `number` tells seats apart, from 1.
Seat model_seat(std::shared_ptr<ModelPool> pool, int number, Approach approach = Approach::converse);

}  // namespace planish::coder
