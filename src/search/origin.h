#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "codegen/genome.h"

namespace planish::search {

/// Where a proposal came from. For records and reports: no decision rests on it.
struct Origin {
  std::string by{};                         ///< the operator: "seed", "mutate", "step", "recheck", "final", …
  std::optional<codegen::Genome> parent{};  ///< that it was made from
  std::string seat{};                       ///< name of the coder that sits there; empty for a strategy's own
  int agent = -1;                           ///< of a swarm; −1: none
  std::string_view focus{};                 ///< of the agent; static text
  int island = -1;
};

/// "mutate agent=12 island=1 focus=latency hiding", "coder seat=NAME": the operator, then what is known.
std::string text(const Origin& origin);
/// What text() wrote, without the parent; `focus` points into the text given.
Origin origin_from_text(std::string_view text);

}  // namespace planish::search
