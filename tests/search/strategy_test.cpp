// What holds for every strategy.
#include "search/strategy.h"

#include <doctest/doctest.h>

#include <deque>
#include <set>

#include "fakes.h"
#include "landscape.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

namespace {

constexpr StrategyKind every[] = {StrategyKind::swarm, StrategyKind::random, StrategyKind::hillclimb,
                                  StrategyKind::tree, StrategyKind::sample};

SearchOptions with(StrategyKind kind) {
  SearchOptions out;
  out.strategy = kind;
  return out;
}

/// Proposals in order, told in order but `late` proposals late.
std::vector<std::string> decisions(StrategyKind kind, std::uint64_t seed, int count, int late) {
  Search search({landscape("r0"), landscape("r1")}, seed, with(kind));
  std::vector<std::string> out;
  std::deque<Ask> open;
  for (int i = 0; i < count; ++i) {
    auto proposal = search.ask();
    REQUIRE(proposal);
    out.push_back(search.specs()[proposal->region].id + codegen::text(proposal->genome()) +
                  (proposal->full ? "!" : ""));
    open.push_back(std::move(*proposal));
    while (static_cast<int>(open.size()) > late) {
      const Ask told = std::move(open.front());
      open.pop_front();
      if (told.serial % 11 == 0) {
        REQUIRE(search.tell_duplicate(told.serial));
      } else {
        Told how = Landscape::told(told.genome());
        how.ok = told.serial % 7 != 0;
        how.cell = Cell::at(static_cast<int>(told.serial % Cell::count));
        REQUIRE(search.tell(told.serial, how));
      }
    }
  }
  return out;
}

double best_after(StrategyKind kind, std::uint64_t seed, int count) {
  Search search({landscape()}, seed, with(kind));
  for (int i = 0; i < count; ++i) {
    auto proposal = search.ask();
    if (!proposal) break;
    REQUIRE(search.tell(proposal->serial, Landscape::told(proposal->genome())));
  }
  return search.region(0).best_ms();
}

}  // namespace

TEST_CASE("strategies have names") {
  for (const StrategyKind kind : every) CHECK(strategy_from_name(name(kind)).value() == kind);
  CHECK(strategy_from_name("magic").error().kind.name() == "usage");
  CHECK(strategy_from_name("magic").error().hint.find("swarm") != std::string::npos);
}

TEST_CASE("same seed and same order of tells, same decisions; another seed, others") {
  for (const StrategyKind kind : every) {
    CAPTURE(name(kind));
    const auto first = decisions(kind, 7, 150, 3);
    CHECK(decisions(kind, 7, 150, 3) == first);
    CHECK(decisions(kind, 8, 150, 3) != first);
  }
}

TEST_CASE("no genome twice, and all of them legal") {
  for (const StrategyKind kind : every) {
    CAPTURE(name(kind));
    Search search({landscape()}, 3, with(kind));
    const Landscape domain;
    std::set<codegen::Genome> seen;
    for (int i = 0; i < 300; ++i) {
      auto proposal = search.ask();
      REQUIRE(proposal);
      CHECK(seen.insert(proposal->genome()).second);
      CHECK(domain.legal(proposal->genome()));
      REQUIRE(search.tell(proposal->serial, Landscape::told(proposal->genome())));
    }
    const FunnelCounts funnel = search.funnel();
    CHECK(funnel.drawn >= 300);
    CHECK(funnel.legal >= 300);
    CHECK(funnel.drawn >= funnel.legal);
  }
}

TEST_CASE("all but independent draws begin with the coder's guesses") {
  for (const StrategyKind kind : every) {
    if (kind == StrategyKind::sample) continue;
    Search search({landscape()}, 3, with(kind));
    for (const auto& seed : Landscape().seeds()) CHECK(search.ask()->genome() == seed);
  }
}

TEST_CASE("a small space is tried in full, and then there is an end") {
  for (const StrategyKind kind : every) {
    CAPTURE(name(kind));
    RegionSpec small = spec("r0");
    small.domain = std::make_shared<GridDomain>(4);
    Search search({small}, 1, with(kind));
    int asked = 0;
    while (auto proposal = search.ask()) {
      REQUIRE(search.tell(proposal->serial, {true, 5.0 + asked, ""}));
      REQUIRE(++asked <= 16);
    }
    // Random draws meet the last ones late; independent ones around the guesses may never.
    if (kind != StrategyKind::sample) CHECK(asked >= 14);
    if (kind == StrategyKind::swarm) CHECK(asked == 16);
  }
}

TEST_CASE("where nothing ever works, a strategy goes on to its end") {
  for (const StrategyKind kind : every) {
    CAPTURE(name(kind));
    Search search({landscape()}, 1, with(kind));
    for (int i = 0; i < 60; ++i) {
      auto proposal = search.ask();
      REQUIRE(proposal);
      REQUIRE(search.tell(proposal->serial, Told{}));
    }
    CHECK(search.region(0).best_ms() == no_time);
  }
}

TEST_CASE("learning beats drawing: mean of the best after 120 of 9,600 genomes") {
  double random = 0, swarm = 0, tree = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    random += best_after(StrategyKind::random, seed, 120) / 5;
    swarm += best_after(StrategyKind::swarm, seed, 120) / 5;
    tree += best_after(StrategyKind::tree, seed, 120) / 5;
  }
  CHECK(swarm < random);
  CHECK(swarm < 1.25);
  CHECK(tree < random);
}
