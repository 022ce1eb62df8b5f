#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "search/board.h"
#include "search/origin.h"
#include "search/predictor.h"
#include "search/region.h"

namespace planish::search {

/// What a search of one region does with what it is told. Strategies know no clock and no process; every decision
/// follows from the seed, the predictor's answers and the order of calls.
enum class StrategyKind : std::uint8_t {
  swarm,      ///< agents on islands with archives (swarm.h)
  random,     ///< the coder's first guesses, then uniform draws
  hillclimb,  ///< guesses, draws, then steepest steps with restarts
  tree,       ///< best-first over partial genomes with an upper confidence bound
  sample,     ///< independent draws around the coder's guesses: best of N
  coders      ///< nothing: those in seats propose alone
};
inline constexpr std::array<std::string_view, 6> strategy_names{"swarm", "random", "hillclimb",
                                                                "tree",  "sample", "coders"};
std::string_view name(StrategyKind kind);
/// Kind `usage`.
Result<StrategyKind> strategy_from_name(std::string_view text);

/// How many genomes came how far before anything was compiled.
struct FunnelCounts {
  std::int64_t drawn = 0;      ///< thought of, by whatever operator
  std::int64_t legal = 0;      ///< of those, legal and not proposed before
  std::int64_t predicted = 0;  ///< of those, ranked by a model
  std::int64_t clustered = 0;  ///< groups of alike predicted ones, of which one each could be proposed
  FunnelCounts& operator+=(const FunnelCounts& other);
};

/// Agents of the swarm where nobody sits in their place.
inline constexpr int swarm_seats = 32;

/// What a strategy works with. Borrowed, and outlives it.
struct StrategyContext {
  const RegionSpec& region;
  std::uint64_t seed = 0;
  Predictor* predictor = nullptr;  ///< may be null
  Board* board = nullptr;          ///< may be null
  bool surrogate = true;           ///< false: no model of what was measured, to see what it is worth
  std::int64_t draws = 0;          ///< genomes to draw before proposing beyond the guesses; 0: as many as is usual
  int agents = swarm_seats;        ///< of the swarm, that are there; the others' seats are somebody else's
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  /// The next genome to screen, never one that was proposed before; nothing when all that can be thought of was.
  virtual std::optional<codegen::Genome> propose() = 0;
  /// Each proposal is told once, in any order.
  virtual void tell(const codegen::Genome& genome, const Told& told) = 0;
  /// The proposal's program is that of an earlier one: it taught nothing new.
  virtual void tell_duplicate(const codegen::Genome& genome) = 0;
  /// An elite was measured again, at level full.
  virtual void tell_again(const codegen::Genome& genome, const Told& told) = 0;
  virtual FunnelCounts funnel() const { return {}; }
  /// Of the latest proposal.
  const Origin& origin() const { return origin_; }

 protected:
  Origin origin_;  ///< set by each propose()
};

std::unique_ptr<Strategy> make_strategy(StrategyKind kind, const StrategyContext& context);

}  // namespace planish::search
