#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// What a judge says of one evaluation: one issue, the numbers behind it, and what to try next. Plain data.
namespace planish::judge {

enum class Kind : std::uint8_t {
  none,           ///< nothing to say: at the speed of light, a duplicate, or our own fault
  compile_error,  ///< no binary that can be launched came of it
  fault,          ///< it was launched and did not end as it should: crash, hang, memory it may not touch
  mismatch,       ///< it ran, and its outputs are not what they must be
  bottleneck,     ///< it is right, and this is what holds it back
};
std::string_view name(Kind kind);

/// One number of the evidence, with its unit ("ms", "bytes", "GB/s", "registers", …; empty for a ratio).
struct Fact {
  std::string name;
  double value = 0;
  std::string unit;
};

/// One change to try. The genes are those of the candidate's own kernel; a move never names a value, the search knows
/// which are legal.
struct Move {
  std::string gene;
  int direction = 0;  ///< −1 or +1: towards smaller or larger choices of the gene; 0: any other choice
  /// Estimated part of the present time that the change saves (0.1: a tenth). For a candidate that failed there is no
  /// time to save: the chance, as a part of one, that the change mends it.
  double expected_gain = 0;
};

struct Verdict {
  Kind kind = Kind::none;
  /// Stable name of the issue in snake_case: `spills`, `occupancy_registers`, `missing_tail`, `race`, …
  std::string issue;
  std::string message;         ///< one sentence for people (and for a model's prompt)
  std::vector<Fact> evidence;  ///< the numbers that the issue was derived from
  std::vector<Move> moves;     ///< by expected gain, largest first; empty where nothing is known to help
};

/// "mismatch missing_tail: sentence", the evidence and the moves on a line each.
std::string to_text(const Verdict& verdict);
/// One JSON object: `kind`, `issue`, `message`, `evidence` [{name, value, unit}], `moves` [{gene, direction,
/// expected_gain}].
std::string to_json(const Verdict& verdict);

}  // namespace planish::judge
