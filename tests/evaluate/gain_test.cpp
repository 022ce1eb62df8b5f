#include "evaluate/gain.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "evaluate/gain_json.h"

using namespace planish;

TEST_CASE("a gain is told where intervals lie apart, and is 1 where they do not") {
  const auto clear = gain_of({10, 9.9, 10.1}, {4, 3.9, 4.1});
  REQUIRE(clear.has_value());
  CHECK(clear->claimed() == 2.5);
  CHECK(clear->lo == doctest::Approx(9.9 / 4.1));
  CHECK(clear->hi == doctest::Approx(10.1 / 3.9));
  const auto noise = gain_of({10, 9, 11}, {9.5, 8.5, 10});
  CHECK(!noise->differs());
  CHECK(noise->claimed() == 1);
  const auto slower = gain_of({4, 3.9, 4.1}, {10, 9.9, 10.1});
  CHECK(slower->claimed() == 0.4);
  // Where the interval says little, the end of it that is nearer to 1 is what holds.
  CHECK(gain_of({100, 20, 400}, {10, 9, 10})->claimed() == 2);
  CHECK(gain_of({10, 9, 10}, {100, 20, 400})->claimed() == doctest::Approx(0.5));
}

TEST_CASE("what has no time has no gain, and what has no interval is its median") {
  CHECK(!gain_of({}, {1, 1, 1}).has_value());
  CHECK(!gain_of({1, 1, 1}, {}).has_value());
  CHECK(gain_of({6, 0, 0}, {2, 0, 0})->claimed() == 3);
  CHECK(!gain_in_turn({}).has_value());
  const std::vector<Round> nothing = {{1, 0}, {0, 1}};
  CHECK(!gain_in_turn(nothing).has_value());
}

TEST_CASE("rounds of equal things are no difference, whatever the machine does meanwhile") {
  std::mt19937_64 draw(7);
  std::lognormal_distribution<double> load(0, 0.6), noise(0, 0.01);
  int told = 0, found = 0;
  for (int run = 0; run < 200; ++run) {
    std::vector<Round> equal, twice;
    for (int n = 0; n < 9; ++n) {
      const double slow = load(draw);  // of the round: it falls on both
      equal.push_back({slow * noise(draw), slow * noise(draw)});
      twice.push_back({2 * slow * noise(draw), slow * noise(draw)});
    }
    equal[3].own_ms *= 400;  // somebody else had the machine for a turn
    told += gain_in_turn(equal)->differs() ? 1 : 0;
    found += gain_in_turn(twice)->differs() ? 1 : 0;
  }
  CHECK(told == 0);
  CHECK(found == 200);
}

TEST_CASE("few rounds have an interval from the least to the greatest") {
  const std::vector<Round> rounds = {{3, 1}, {2, 1}, {4, 1}};
  const auto gain = gain_in_turn(rounds);
  CHECK(gain->ratio == 3);
  CHECK(gain->lo == doctest::Approx(2 / (1 + between_processes)));
  CHECK(gain->hi == doctest::Approx(4 * (1 + between_processes)));
}

TEST_CASE("an interval of order statistics leaves outliers out from nine samples on") {
  const MeasuredTime nine = measured({1, 2, 3, 4, 5, 6, 7, 8, 900});
  CHECK((nine.median_ms == 5 && nine.lo_ms == 2 && nine.hi_ms == 8));
  const MeasuredTime six = measured({1, 2, 3, 4, 5, 900});
  CHECK((six.median_ms == 3.5 && six.lo_ms == 1 && six.hi_ms == 900));
  CHECK(measured({}).median_ms == 0);
}

TEST_CASE("gains over gains multiply, the lesser holds for both, a hull holds two measurements") {
  const Gain a{2, 1.8, 2.2}, b{3, 2.5, 3.5};
  CHECK(chained(a, b).ratio == 6);
  CHECK(chained(a, b).lo == doctest::Approx(4.5));
  CHECK(lesser(a, Gain{2.1, 0.9, 3}).lo == 0.9);
  CHECK(!lesser(a, Gain{2.1, 0.9, 3}).differs());
  const Gain both = hull(a, b);
  CHECK((both.lo == 1.8 && both.hi == 3.5));
  CHECK(both.ratio == doctest::Approx(2.449).epsilon(0.001));
}

TEST_CASE("a gain as JSON, and what is none") {
  const Gain gain{1.02, 0.97, 1.06};
  const auto back = gain_from_json(gain_to_json(gain));
  REQUIRE(back.has_value());
  CHECK((back->ratio == gain.ratio && back->lo == gain.lo && back->hi == gain.hi));
  CHECK(gain_to_json(gain)["difference"] == false);
  for (const char* text : {"null", "3", "{}", R"({"ratio":2})", R"({"ratio":2,"lo":3,"hi":1})", R"({"ratio":"2"})"})
    CHECK_MESSAGE(!gain_from_json(Json::parse(text)).has_value(), text);
}
