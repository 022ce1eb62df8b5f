#include "evaluate/call_times.h"

#include <doctest/doctest.h>

using namespace planish;

TEST_CASE("what an empty call takes is subtracted, and what single calls cost the reference is taken off") {
  CallSamples samples;
  samples.empty = {0.10, 0.11, 0.10, 0.50, 0.10, 0.12, 0.10, 0.10};
  samples.solution = {2.1, 2.1, 2.2, 2.1, 2.0, 2.1};
  samples.reference = {4.1, 4.1, 4.1, 4.2, 4.0, 4.1};
  samples.hot_ms = 2.0;
  const ModuleTimes times = times_of(samples);
  CHECK(times.outside_ms == doctest::Approx(2.0));
  CHECK(times.median_ms == doctest::Approx(1.0));  // as the reference, which takes half as long in a row
  CHECK(times.lo_ms <= times.median_ms);
  CHECK(times.hi_ms >= times.median_ms);
  CHECK(times.samples_ms.size() == 6);
  // What is the task itself takes what the task takes.
  samples.solution = samples.reference;
  CHECK(times_of(samples).median_ms == doctest::Approx(samples.hot_ms));
  // A loop that was slower than single calls makes nobody slower.
  samples.hot_ms = 100;
  CHECK(times_of(samples).median_ms == doctest::Approx(4.0));
}

TEST_CASE("a slow module is spared what single calls cost the reference, not a part of its own work") {
  CallSamples samples;
  samples.empty = {0.1, 0.1, 0.1, 0.1};
  samples.reference = {5.1, 5.1, 5.1, 5.1, 5.1, 5.1};
  samples.hot_ms = 0.05;
  samples.solution.assign(6, 300.1);
  CHECK(times_of(samples).median_ms == doctest::Approx(300 - 4.95));
  CHECK(times_of(samples).lo_ms > 290);
  // One that is as fast takes what the reference takes in a row, and nothing jumps there.
  samples.solution.assign(6, 5.1 + 1e-6);
  CHECK(times_of(samples).median_ms == doctest::Approx(0.05).epsilon(1e-3));
}

TEST_CASE("who saves the messages of an empty call gains no more than the interval says") {
  CallSamples samples;
  samples.empty = {0.1, 0.1, 0.1, 0.1};
  samples.reference = {0.2, 0.2, 0.2, 0.2, 0.2, 0.2};
  samples.solution = {0.11, 0.11, 0.11, 0.11, 0.11, 0.11};
  samples.hot_ms = 0.1;
  CHECK(too_soon(samples).empty());
  CHECK(times_of(samples).hi_ms >= 0.06);
  samples.solution.assign(6, 0.04);
  CHECK_FALSE(too_soon(samples).empty());
  CHECK(times_of(samples).median_ms > 0);
}

TEST_CASE("samples that agree are enough") {
  CHECK(settled({1, 1, 1, 1, 1, 1}, 0.01));
  CHECK_FALSE(settled({1, 1, 1}, 0.01));
  CHECK_FALSE(settled({1, 2, 3, 4, 5, 6, 7}, 0.01));
}
