#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/search.h"
#include "surface.h"

namespace planish::bench {

/// A strategy, whole or with something taken away.
struct Contender {
  search::StrategyKind kind = search::StrategyKind::swarm;
  bool advice = true;     ///< hears what a judge says of each evaluation, where the surface can be judged
  bool surrogate = true;  ///< StrategyContext::surrogate
};
/// "swarm", "swarm-advice", "swarm-surrogate", "swarm-advice-surrogate": a minus takes away. Kind `usage`.
Result<Contender> contender_from_name(std::string_view text);
std::string name(const Contender& contender);

/// The best true time after each evaluation; infinite while nothing passed.
struct Trace {
  std::vector<double> best;
  double seconds = 0;           ///< the strategy's own
  std::uint64_t decisions = 0;  ///< a hash of all proposals in their order: equal where two versions decide alike
};

/// One search. A genome whose program was met before costs nothing, as in a real run.
Trace trace(const Surface& surface, const Contender& contender, std::uint64_t seed, int evaluations);

}  // namespace planish::bench
