#include "search/strategy.h"

#include <fmt/format.h>

#include <array>

#include "base/suggest.h"
#include "search/draws.h"
#include "search/hill_climb.h"
#include "search/swarm.h"
#include "search/tree_search.h"

namespace planish::search {
namespace {

/// Leaves everything to the coders in seats.
class Silent : public Strategy {
 public:
  std::optional<codegen::Genome> propose() override { return std::nullopt; }
  void tell(const codegen::Genome&, const Told&) override {}
  void tell_duplicate(const codegen::Genome&) override {}
  void tell_again(const codegen::Genome&, const Told&) override {}
};

}  // namespace

std::string_view name(StrategyKind kind) {
  return strategy_names[static_cast<std::size_t>(kind)];
}

Result<StrategyKind> strategy_from_name(std::string_view text) {
  for (std::size_t i = 0; i < strategy_names.size(); ++i) {
    if (strategy_names[i] == text) return static_cast<StrategyKind>(i);
  }
  return fail("usage", fmt::format("there is no strategy '{}'", text),
              fmt::format("{}choose from {}", did_you_mean(text, {strategy_names.begin(), strategy_names.end()}),
                          fmt::join(strategy_names, ", ")));
}

FunnelCounts& FunnelCounts::operator+=(const FunnelCounts& other) {
  drawn += other.drawn;
  legal += other.legal;
  predicted += other.predicted;
  clustered += other.clustered;
  return *this;
}

std::unique_ptr<Strategy> make_strategy(StrategyKind kind, const StrategyContext& context) {
  switch (kind) {
    case StrategyKind::swarm:
      return std::make_unique<Swarm>(context);
    case StrategyKind::random:
      return std::make_unique<RandomSearch>(context);
    case StrategyKind::hillclimb:
      return std::make_unique<HillClimb>(context);
    case StrategyKind::tree:
      return std::make_unique<TreeSearch>(context);
    case StrategyKind::sample:
      return std::make_unique<Sample>(context);
    case StrategyKind::coders:
      return std::make_unique<Silent>();
  }
  return std::make_unique<HillClimb>(context);
}

}  // namespace planish::search
