#include "session/time_plan.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace planish;
using namespace planish::session;

TEST_CASE("without a limit there is always time") {
  FakeClock clock;
  TimePlan plan(clock, 0);
  clock.advance(std::chrono::hours(10));
  CHECK(plan.used() == doctest::Approx(36000));
  CHECK(std::isinf(plan.left()));
  CHECK(std::isinf(plan.for_search()));
  CHECK(std::isinf(plan.for_proof()));
}

TEST_CASE("what comes last keeps its share, and a short limit still searches") {
  FakeClock clock;
  TimePlan plan(clock, 100);
  clock.advance(std::chrono::seconds(10));
  plan.took(5, 0.5);
  plan.compiles(1);
  CHECK(plan.proof_estimate() == doctest::Approx(11));
  CHECK(plan.left() == doctest::Approx(90));
  CHECK(plan.for_proof() == doctest::Approx(90 - 25));
  CHECK(plan.for_search() == doctest::Approx(90 - 25 - 11));
  CHECK(plan.for_last_answers() == doctest::Approx(90 - 25 - 11 + 2.75));
  // Without it there is nothing to prove.
  CHECK(plan.for_composing() == doctest::Approx(90 - 25 - 5.5));
  clock.advance(std::chrono::seconds(80));
  CHECK(plan.left() == doctest::Approx(10));
  CHECK(plan.for_search() == 0);
  CHECK(plan.for_last_answers() == 0);
  TimePlan small(clock, 10);
  small.took(5, 5);
  small.compiles(3);
  CHECK(small.for_search() == doctest::Approx(4));
}

TEST_CASE("a short search is timed briefly at the end, a long one is not cut") {
  CHECK(TimePlan::claim_seconds(5) == doctest::Approx(1.25));
  CHECK(TimePlan::claim_seconds(1) == doctest::Approx(1));
  CHECK(TimePlan::claim_seconds(600) == doctest::Approx(5));
  CHECK(TimePlan::claim_seconds(0) == doctest::Approx(5));  // by evaluations alone
}
