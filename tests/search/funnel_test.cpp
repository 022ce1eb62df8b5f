#include <doctest/doctest.h>

#include "fakes.h"
#include "search/search.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

namespace {

RegionSpec wide() {
  RegionSpec out = spec("r0");
  out.domain = std::make_shared<GridDomain>(200);
  return out;
}

/// Asks and tells so many times; the funnel after it.
FunnelCounts funnel_of(std::int64_t draws, int proposals) {
  SearchOptions options;
  options.strategy = StrategyKind::swarm;
  options.draws = draws;
  Search search({wide()}, 1, options);
  for (int i = 0; i < proposals; ++i) {
    const auto proposal = search.ask();
    REQUIRE(proposal);
    Told told;
    told.ok = true;
    told.median_ms = ValleyEvaluator::valley(proposal->genome(), 1, 0.01);
    REQUIRE(search.tell(proposal->serial, told));
  }
  return search.funnel();
}

}  // namespace

TEST_CASE("as many genomes are drawn as were asked for, and all are counted") {
  CHECK(funnel_of(20000, 2).drawn == 2);  // the guesses come first: nothing is drawn for them
  const FunnelCounts usual = funnel_of(0, 40), many = funnel_of(20000, 40);
  CHECK(usual.drawn > 4096);
  CHECK(many.drawn > 20000);
  CHECK(many.drawn > usual.drawn + 12000);
  CHECK(many.predicted > 0);
  CHECK(many.clustered > 0);
  CHECK(many.legal >= 40);
}
