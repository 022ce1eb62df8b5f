#include "search/fusion_plans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "fakes.h"
#include "search/search.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

namespace {

/// Regions 0 and 1 of the task, with 2 in place of both, and 3 and 4 in place of 0.
struct Case {
  std::vector<RegionSpec> specs;
  std::vector<FusionPlan> fusions{{{{0, 1}, {1, 1}}, {{2, 1}}}, {{{0, 1}}, {{3, 1}, {4, 1}}}};
  std::vector<Standing> standings;
  Case() {
    for (int i = 0; i < 5; ++i) {
      RegionSpec one = spec("r" + std::to_string(i), 1.0);
      one.alternative = i >= 2;
      specs.push_back(std::move(one));
      standings.push_back({i < 2 ? 4.0 : no_time, i < 2 ? 20 : 0, false});
    }
  }
  FusionPlans made() const { return {specs, fusions}; }
};

/// Asks and tells until nothing is left or so often; how often each region was asked for.
std::map<std::size_t, int> run(Search& search, const std::function<Told(const Ask&)>& answer, int most) {
  std::map<std::size_t, int> asked;
  for (int i = 0; i < most; ++i) {
    auto proposal = search.ask();
    if (!proposal) break;
    ++asked[proposal->region];
    REQUIRE(search.tell(proposal->serial, answer(*proposal)));
  }
  return asked;
}

}  // namespace

TEST_CASE("a way promises what its regions may still save") {
  Case c;
  CHECK(c.made().promise(2, c.standings).value() == doctest::Approx(4 + 4 - 1));
  CHECK(c.made().promise(3, c.standings).value() == doctest::Approx(4 - 2));
  CHECK_FALSE(c.made().promise(0, c.standings));  // stands in no way
  // The more it was worked on, the less is hoped for.
  c.standings[2] = {7.9, 5, false};
  CHECK(c.made().promise(2, c.standings).value() == doctest::Approx(7));
  c.standings[2].told = 6;
  const double early = c.made().promise(2, c.standings).value();
  c.standings[2].told = 60;
  const double late = c.made().promise(2, c.standings).value();
  CHECK(early > 1.5);
  CHECK(late < 0.5);
  CHECK(late > 0.1);
  c.standings[2].best_ms = 9;
  CHECK_FALSE(c.made().promise(2, c.standings));
}

TEST_CASE("a way that only fails, or whose rival is not known well yet, promises nothing") {
  Case c;
  c.standings[2].told = 12;
  CHECK_FALSE(c.made().promise(2, c.standings));
  c.standings[2].told = 0;
  c.standings[0] = {no_time, 0, false};
  CHECK_FALSE(c.made().promise(2, c.standings));
  CHECK_FALSE(c.made().promise(3, c.standings));
  c.standings[0] = {4, 0, true};
  CHECK(c.made().promise(2, c.standings));
}

TEST_CASE(
    "a way that saves much of what the others may still come to is tried at once, one that may save little later") {
  Case c;
  c.standings[0].told = 1;
  CHECK(c.made().promise(2, c.standings).value() == doctest::Approx(4 + 4 - 1));
  c.specs[2].bound_ms = 5;
  CHECK_FALSE(c.made().promise(2, c.standings));
  // Near its bound it cannot become much better.
  c.specs[0].bound_ms = 3.9;
  CHECK(c.made().promise(2, c.standings));
  c.specs[0].bound_ms = 1;
  c.standings[0].told = 12;
  CHECK(c.made().promise(2, c.standings).value() == doctest::Approx(4 + 4 - 5));
}

TEST_CASE("what is hoped for before anything was measured is weighed against what the others might reach") {
  Case c;
  c.standings[0] = c.standings[1] = {4, 0, false};
  CHECK(c.made().promise(2, c.standings).value() == doctest::Approx(4 + 4 - 1));
  c.specs[2].bound_ms = 1.4;
  CHECK(c.made().promise(2, c.standings));
  c.specs[2].bound_ms = 1.6;
  CHECK_FALSE(c.made().promise(2, c.standings));
  CHECK_FALSE(c.made().promise(3, c.standings));
}

TEST_CASE("where times fall below what should be the least, they may elsewhere as well") {
  Case c;
  c.standings[0].best_ms = c.standings[1].best_ms = 0.1;
  CHECK(c.made().promise(2, c.standings).value() == doctest::Approx(0.2 - 0.1));
  CHECK_FALSE(c.made().promise(3, c.standings));
}

TEST_CASE("of ways that replace the same region the best counts; counts weigh") {
  Case c;
  c.standings[2].best_ms = 6;
  c.standings[3].best_ms = 1;
  c.standings[4].best_ms = 1.5;
  CHECK(c.made().worth(c.standings, 0) == std::vector<std::size_t>{0});
  c.fusions[1].replaces[0].times = c.fusions[1].by[0].times = c.fusions[1].by[1].times = 3;
  CHECK(c.made().gain(c.made().all()[1], c.standings).value() == doctest::Approx(4.5));
  CHECK(c.made().worth(c.standings, 0) == std::vector<std::size_t>{1});
  // A little slower counts as close.
  c.fusions.resize(1);
  c.standings[2].best_ms = 8.4;
  CHECK(c.made().worth(c.standings, 0).empty());
  CHECK(c.made().worth(c.standings, 0.1) == std::vector<std::size_t>{0});
  c.standings[2].best_ms = no_time;
  CHECK(c.made().worth(c.standings, 0.1).empty());
}

TEST_CASE("a search works on other ways where they may gain, and measures them at the end where they do") {
  for (const double speed : {0.5, 3.0}) {
    Case c;
    SearchOptions how;
    how.fusions = c.fusions;
    Search search(c.specs, 1, how);
    std::vector<std::string> first;
    const auto asked = run(
        search,
        [&](const Ask& p) {
          if (p.region == 2 && first.empty()) first.push_back(p.origin.by);
          const double ms = ValleyEvaluator::valley(p.genome(), 4, 0.1);
          return Told{true, p.region == 2 ? ms * speed : ms, "p"};
        },
        300);
    CHECK(first == std::vector<std::string>{"partition"});
    CHECK(asked.at(2) > 0);
    // Slower than both together: hope is soon gone. Twice as fast: it gets its share.
    CHECK((asked.at(2) > 40) == (speed < 1));
    CHECK(asked.at(0) > 50);
    std::map<std::size_t, int> finals;
    while (auto proposal = search.ask_final()) {
      ++finals[proposal->region];
      const double ms = ValleyEvaluator::valley(proposal->genome(), 4, 0.1);
      REQUIRE(search.tell(proposal->serial, {true, proposal->region == 2 ? ms * speed : ms, "p"}));
    }
    CHECK(finals.contains(0));
    CHECK(finals.contains(2) == (speed < 1));
    CHECK_FALSE(finals.contains(3));
    CHECK(search.close_fusions(true).size() == (speed < 1 ? 1 : 0));
  }
}

TEST_CASE("without ways that may gain nothing is spent on alternatives") {
  Case c;
  for (RegionSpec& one : c.specs) one.bound_ms = one.alternative ? 30 : 1;
  SearchOptions how;
  how.fusions = c.fusions;
  Search search(c.specs, 1, how);
  const auto asked =
      run(search, [](const Ask& p) { return Told{true, ValleyEvaluator::valley(p.genome(), 4, 0.1), "p"}; }, 200);
  CHECK(asked.size() == 2);
  CHECK(search.region(2).told() == 0);
}
