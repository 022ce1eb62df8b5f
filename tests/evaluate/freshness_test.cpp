#include "evaluate/freshness.h"

#include <doctest/doctest.h>

#include <map>

namespace planish {
namespace {

/// A program that takes `work` ms on contents it has not met and `kept` on others, on clocks that turn by `drift` a
/// run.
struct World {
  double work = 1, kept = 1, drift = 1;
  int fails_at = 0;  ///< the run that fails, from 1
  std::uint64_t seed = 1, contents = 0;
  std::map<std::uint64_t, int> met = {};
  int runs = 0;
  double clock = 1;

  Result<std::optional<double>> run() {
    if (++runs == fails_at) return std::optional<double>();
    clock *= drift;
    return std::optional((met[contents]++ > 0 ? kept : work) * clock);
  }

  Result<std::optional<std::string>> asked() {
    const auto draw = [this] { return seed = seed * 6364136223846793005U + 1442695040888963407U; };
    const auto on_seed = [this](std::uint64_t which) {
      contents = which;
      return run();
    };
    return keeps_results({draw, on_seed, [this] { return run(); }});
  }

  std::string found() {
    const auto said = asked();
    REQUIRE(said.has_value());
    REQUIRE(said->has_value());
    return **said;
  }
};

TEST_CASE("what keeps results is named with both times, also where that saves half") {
  CHECK(World{.work = 12, .kept = 0.065}.found() ==
        "it keeps results: 12 ms at least on new contents, 0.065 ms at most on contents it has met before");
  CHECK(World{.work = 12, .kept = 6}.found().contains("keeps results"));
  CHECK(World{.work = 0.46, .kept = 0.16}.found().contains("keeps results"));
}

TEST_CASE("honest programs pass after one pair, and small differences prove nothing") {
  World honest{.work = 12, .kept = 12};
  CHECK(honest.found().empty());
  CHECK(honest.runs <= 2 + 5);
  CHECK(World{.work = 12, .kept = 11}.found().empty());
  CHECK(World{.work = 0.02, .kept = 0.001}.found().empty());
}

TEST_CASE("clocks that rise or fall prove nothing") {
  for (std::uint64_t seed = 1; seed < 100; ++seed) {
    CHECK(World{.work = 1000, .kept = 1000, .drift = 0.8, .seed = seed}.found().empty());
    CHECK(World{.work = 1000, .kept = 1000, .drift = 1.25, .seed = seed}.found().empty());
  }
}

TEST_CASE("a run that fails ends the question without an answer") {
  for (const int run : {1, 2, 9}) {
    const auto said = World{.work = 12, .kept = 1, .fails_at = run}.asked();
    REQUIRE(said.has_value());
    CHECK_FALSE(said->has_value());
  }
}

}  // namespace
}  // namespace planish
