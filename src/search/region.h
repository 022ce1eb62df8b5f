#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coder/domain.h"
#include "search/advisor.h"
#include "search/cell.h"

namespace planish::search {

inline constexpr double no_time = std::numeric_limits<double>::infinity();

/// One thing to search: a region of which the task has `count` (an alternative: would have).
struct RegionSpec {
  std::string id;
  std::string key;  ///< canonical
  int count = 1;
  double bound_ms = 0;           ///< roofline; 0 if not known
  double fallback_ms = no_time;  ///< what its aten form takes, where that was measured
  double launch_ms = 0;          ///< the least that launching it takes beside its work, where that is known
  bool alternative = false;      ///< no part of the task as it was cut first: it stands in a Way
  bool sources_only = false;     ///< no template applies: coders alone propose for it
  std::shared_ptr<const coder::Domain> domain;
};

/// What became of a proposal, as far as search cares.
struct Told {
  bool ok = false;
  double median_ms = 0;                            ///< where ok
  std::string program;                             ///< hash; empty if it could not be built
  double lo_ms = 0, hi_ms = 0;                     ///< 95 % interval of the median; 0 where not known
  double seconds = 0;                              ///< what compiling, testing and timing took
  std::optional<Cell> cell{};                      ///< of the archive, where the compiled program was looked at
  std::vector<Move> moves{};                       ///< what a judge would try next, best first
  bool slow = false;                               ///< not ok only because it was given up as too slow
  bool lost = false;                               ///< not ok for a reason of ours, which says nothing of it
  std::string advice{};                            ///< what a judge says of it, for whoever reads
  std::string issue{};                             ///< its name of that
  std::optional<Error> error{};                    ///< why it could not be built
  std::shared_ptr<const Evaluation> evaluation{};  ///< null where there was none
};

enum class Answer : std::uint8_t {
  improved,    ///< the best of its region so far
  new_cell,    ///< not that, but the first of its cell
  not_better,  ///< passed, and nothing more
  duplicate,
  rejected
};

}  // namespace planish::search
