#include "statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace planish::rt;

TEST_CASE("the rank is that of published tables of the sign test") {
  CHECK(interval_rank(5) == 0);
  CHECK(interval_rank(6) == 1);
  CHECK(interval_rank(8) == 1);
  CHECK(interval_rank(9) == 2);
  CHECK(interval_rank(20) == 6);
  CHECK(interval_rank(40) == 14);
  CHECK(interval_rank(100) == 40);
  CHECK(std::abs(interval_rank(1000) - interval_rank(1001)) <= 1);  // exact and approximate agree where they meet
}

TEST_CASE("median and interval of known samples") {
  CHECK(summarise({}).median == 0);
  CHECK(summarise({3, 1, 2}).median == 2);
  CHECK(summarise({4, 1, 2, 3}).median == 2.5);
  const Summary few = summarise({5, 1, 3});
  CHECK_FALSE(few.bounded);
  CHECK(few.lo == 1);
  CHECK(few.hi == 5);
  std::vector<double> samples;
  for (int i = 20; i >= 1; --i) samples.push_back(i);
  const Summary twenty = summarise(samples);
  CHECK(twenty.bounded);
  CHECK(twenty.median == 10.5);
  CHECK(twenty.lo == 6);
  CHECK(twenty.hi == 15);
}

TEST_CASE("settled looks at both ends, and never at too few samples") {
  CHECK(settled({100, 99.5, 100.5, true}, 0.01));
  CHECK_FALSE(settled({100, 98.5, 100.5, true}, 0.01));
  CHECK_FALSE(settled({100, 99.5, 101.5, true}, 0.01));
  CHECK_FALSE(settled({100, 100, 100, false}, 0.01));
}

TEST_CASE("the interval covers the true median about as often as it says, also for skewed times") {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> times(0, 1);  // median 1
  int covered = 0;
  constexpr int trials = 2000;
  for (int t = 0; t < trials; ++t) {
    std::vector<double> samples(31);
    for (double& s : samples) s = times(random);
    const Summary summary = summarise(samples);
    covered += summary.lo <= 1 && 1 <= summary.hi;
  }
  CHECK(covered >= trials * 94 / 100);
  CHECK(covered <= trials * 99 / 100);
}
