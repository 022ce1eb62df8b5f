#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace planish::search {

/// When something came of a coder that was thinking. The search's own time is how often it was asked for a proposal
/// (Search::polls()): between two of those nothing that a coder says is heard.
struct SeatEvent {
  std::int64_t poll = 0;
  std::size_t region = 0, seat = 0;
  enum class What : std::uint8_t { proposal, failed, finished } what = What::proposal;
  bool operator==(const SeatEvent&) const = default;
};

/// All of a search that does not follow from its seed and from what it is told: when its coders answered, and when
/// time was over. With it and the same answers a search takes the same course, however fast they come.
struct Schedule {
  std::vector<SeatEvent> events;  ///< in their order
  std::int64_t polls = 0;         ///< of the screening
  std::int64_t finals = 0;        ///< elites measured at the end
};

}  // namespace planish::search
