#include "search/search.h"

#include <doctest/doctest.h>

#include "fakes.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

TEST_CASE("budget: shares follow headroom with a floor") {
  std::vector<Share> shares(3);
  shares[0].headroom_ms = 90;
  shares[1].headroom_ms = 9;
  shares[2].headroom_ms = 0;
  for (int i = 0; i < 1000; ++i) ++shares[static_cast<std::size_t>(next_region(shares))].spent;
  CHECK(shares[0].spent > 6 * shares[1].spent);
  CHECK(shares[1].spent > shares[2].spent);
  CHECK(shares[2].spent > 10);  // the floor: nobody starves
}

TEST_CASE("budget: closed regions get nothing, and with none open there is no next") {
  std::vector<Share> shares(2);
  shares[0].open = false;
  CHECK(next_region(shares) == 1);
  shares[1].open = false;
  CHECK(next_region(shares) == -1);
  CHECK(next_region({}) == -1);
}

TEST_CASE("seeds come first, in order, and no genome twice") {
  Search search({spec("r0")}, 1);
  std::set<codegen::Genome> seen;
  for (int i = 0; i < 200; ++i) {
    auto proposal = search.ask();
    REQUIRE(proposal);
    if (i == 0) CHECK(proposal->genome() == GridDomain::make(0, 0));
    if (i == 1) CHECK(proposal->genome() == GridDomain::make(15, 15));
    CHECK(seen.insert(proposal->genome()).second);
    REQUIRE(search.tell(proposal->serial, {true, ValleyEvaluator::valley(proposal->genome(), 1, 0.1), "p"}));
  }
}

TEST_CASE("a region ends when its genomes do") {
  RegionSpec small = spec("r0");
  small.domain = std::make_shared<GridDomain>(3);
  Search search({small}, 1);
  int asked = 0;
  while (auto proposal = search.ask()) {
    REQUIRE(search.tell(proposal->serial, {true, 5.0, ""}));
    REQUIRE(++asked <= 9);
  }
  CHECK(asked == 9);
}

TEST_CASE("at the speed of light a region is done") {
  Search search({spec("r0", 1.0)}, 1);
  auto proposal = search.ask();
  REQUIRE(proposal);
  // At the bound of a streaming copy there may be more to gain; well past it there is not.
  REQUIRE(search.tell(proposal->serial, {true, 1.0, "p"}));
  CHECK_FALSE(search.region(0).at_speed_of_light());
  proposal = search.ask();
  REQUIRE(proposal);
  REQUIRE(search.tell(proposal->serial, {true, 0.94, "q"}));
  CHECK(search.region(0).at_speed_of_light());
  CHECK_FALSE(search.ask());
}

TEST_CASE("tells out of order of the asks are fine, twice or unasked is an error") {
  Search search({spec("r0")}, 1);
  auto first = search.ask(), second = search.ask();
  REQUIRE((first && second));
  CHECK(search.tell(second->serial, {true, 2, "b"}).value() == Answer::improved);
  CHECK(search.tell(first->serial, {true, 3, "a"}).value() == Answer::not_better);
  CHECK(search.tell(first->serial, {true, 3, "a"}).error().kind.name() == "order_violation");
  CHECK(search.tell(77, {}).error().kind.name() == "order_violation");
  CHECK(search.tell_duplicate(77).error().kind.name() == "order_violation");
}

TEST_CASE("a final that was lost for a reason of ours says nothing of the elite, and a wrong one does") {
  for (const bool lost : {true, false}) {
    Search search({spec("r0")}, 1);
    const auto good = search.ask();
    REQUIRE(search.tell(good->serial, {true, 2, "b"}));
    const auto final_one = search.ask_final();
    REQUIRE(final_one);
    Told told;
    told.lost = lost;
    CHECK(search.tell(final_one->serial, told).value() == Answer::rejected);
    CHECK_FALSE(search.ask_final());  // it is not tried for ever
    CHECK(search.region(0).ranking().size() == (lost ? 1 : 0));
    search.settle();
    CHECK(search.region(0).winner().has_value() == lost);
  }
}

TEST_CASE("rejected candidates never become finalists") {
  Search search({spec("r0")}, 1);
  auto bad = search.ask();
  CHECK(search.tell(bad->serial, {false, 0, "a"}).value() == Answer::rejected);
  auto good = search.ask();
  REQUIRE(search.tell(good->serial, {true, 2, "b"}));
  auto final_one = search.ask_final();
  REQUIRE(final_one);
  CHECK(final_one->full);
  CHECK(final_one->genome() == good->genome());
  CHECK_FALSE(search.ask_final());
  CHECK_FALSE(search.ask());  // finals have begun
}

TEST_CASE("an unpromising candidate may be given up") {
  RegionSpec region = spec("r0");
  region.fallback_ms = 10;
  Search search({region}, 1);
  auto first = search.ask();
  CHECK(first->give_up_ms == doctest::Approx(25));
  REQUIRE(search.tell(first->serial, {true, 2, "a"}));
  CHECK(search.ask()->give_up_ms == doctest::Approx(5));
}
