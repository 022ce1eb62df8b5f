#include "search/run.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "fakes.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

namespace {

struct World {
  FakeClock clock;
  ValleyEvaluator evaluator{&clock};
  Recorder sink;
  RunOptions options;
  Result<RunResult> run(Search& search, History* history = nullptr) {
    return run_search(search, evaluator, history, sink, clock, options);
  }
};

}  // namespace

TEST_CASE("finds the floor of a valley") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    World world;
    world.options.budget = {0, 90};
    Search search({spec("r0")}, seed);
    REQUIRE(world.run(search));
    REQUIRE(search.region(0).winner());
    CHECK(search.region(0).winner()->ms == doctest::Approx(1.0));
  }
}

TEST_CASE("stops by seconds and by count") {
  World timed;
  timed.options.budget = {10, 0};
  Search a({spec("r0")}, 1);
  auto result = timed.run(a);
  REQUIRE(result);
  CHECK(result->stopped == Stopped::budget);
  // Ten seconds of one each; four are kept for the elites, a final seems to take four until one was measured.
  CHECK(result->evaluations == 9);
  CHECK(std::ranges::count_if(timed.evaluator.log, [](const std::string& l) { return l.starts_with("r0!"); }) == 3);
  CHECK(timed.clock.wall_seconds() <= 10);
  World counted;
  counted.options.budget = {0, 7};
  Search b({spec("r0")}, 1);
  REQUIRE(counted.run(b));
  CHECK(counted.evaluator.log.size() == 10);
}

TEST_CASE("what was waited for other processes is no part of the budget") {
  World alone, beside;
  beside.evaluator.waited_seconds = 5;
  for (World* world : {&alone, &beside}) {
    world->options.budget = {10, 0};
    Search search({spec("r0")}, 1);
    const auto result = world->run(search);
    REQUIRE(result);
    CHECK(result->stopped == Stopped::budget);
  }
  CHECK(alone.evaluator.log == beside.evaluator.log);
}

TEST_CASE("finals that take long are not begun together: what one takes decides about the next") {
  World world;
  world.options.budget = {10, 0};
  world.options.window = 4;
  world.evaluator.final_seconds = 3;
  Search search({spec("r0")}, 1);
  REQUIRE(world.run(search));
  CHECK(std::ranges::count_if(world.evaluator.log, [](const std::string& l) { return l.starts_with("r0!"); }) == 1);
  REQUIRE(search.region(0).winner());
  // Screening leaves four of the ten seconds and whatever was under way with it.
  CHECK(world.clock.wall_seconds() <= 12);
}

TEST_CASE("a region with more to gain gets more") {
  World world;
  world.options.budget = {0, 120};
  world.evaluator.scales = {{"big", 10}, {"small", 0.01}};
  world.evaluator.floor_ms = 5;
  Search search({spec("big", 0.5, 4), spec("small", 4.5, 1)}, 3);
  REQUIRE(world.run(search));
  CHECK(world.evaluator.calls["big"] > 2 * world.evaluator.calls["small"]);
  CHECK(world.evaluator.calls["small"] > 3);
}

TEST_CASE("same seed, same run; the window does not change what is told in which order") {
  std::vector<std::string> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    World world;
    world.options.budget = {0, 60};
    world.options.window = 3;
    Search search({spec("r0"), spec("r1", 0.5, 1, 2)}, 42);
    REQUIRE(world.run(search));
    if (repeat == 0) first = world.sink.order;
    CHECK(world.sink.order == first);
  }
  World other;
  other.options.budget = {0, 60};
  other.options.window = 3;
  Search search({spec("r0"), spec("r1", 0.5, 1, 2)}, 43);
  REQUIRE(other.run(search));
  CHECK(other.sink.order != first);
}

TEST_CASE("equal programs are evaluated once") {
  World world;
  world.options.budget = {0, 200};
  Search search({spec("r0", 0.5, 1, 4)}, 5);
  REQUIRE(world.run(search));
  CHECK(world.sink.duplicates > 0);
  CHECK(world.evaluator.log.size() <= 16 + 3);
}

TEST_CASE("an interrupted run, resumed, evaluates nothing twice and decides the same") {
  World whole;
  whole.options.budget = {0, 50};
  Search uninterrupted({spec("r0")}, 9);
  REQUIRE(whole.run(uninterrupted));

  World cut;
  cut.evaluator.fail_after = 20;
  cut.options.budget = {0, 50};
  Search first({spec("r0")}, 9);
  auto broken = cut.run(first);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().kind.name() == "closed");
  CHECK(cut.sink.order.size() == 20);

  World resumed;
  resumed.options.budget = {0, 50};
  Remembered history(cut.sink.kept);
  Search second({spec("r0")}, 9);
  auto result = resumed.run(second, &history);
  REQUIRE(result);
  CHECK(result->recalled == 20);
  CHECK(resumed.sink.order == whole.sink.order);
  CHECK(resumed.evaluator.log.size() == whole.evaluator.log.size() - 20);
}

TEST_CASE("what a run had used of its seconds counts only once the replay is over") {
  World cut;
  cut.options.budget = {10, 0};
  cut.evaluator.fail_after = 6;
  Search first({spec("r0")}, 9);
  REQUIRE_FALSE(cut.run(first));
  World resumed;
  resumed.options.budget = {10, 0};
  resumed.options.seconds_used = 6;
  Remembered history(cut.sink.kept);
  Search second({spec("r0")}, 9);
  auto result = resumed.run(second, &history);
  REQUIRE(result);
  CHECK(result->recalled >= 6);
  // The four seconds that were left, the elites among them.
  CHECK(resumed.evaluator.log.size() == 4);
  CHECK(resumed.clock.wall_seconds() <= 4);
}

TEST_CASE("cancelled: no more screening, but the elites are measured") {
  World world;
  world.options.budget = {0, 500};
  world.sink.cancel = world.options.cancel;
  world.sink.cancel_after = 12;
  Search search({spec("r0")}, 1);
  auto result = world.run(search);
  REQUIRE(result);
  CHECK(result->stopped == Stopped::cancelled);
  CHECK(world.evaluator.log.size() == 15);
  CHECK(search.region(0).winner());
}

TEST_CASE("an elite that fails the whole contract does not win") {
  World world;
  world.options.budget = {0, 90};
  world.evaluator.wrong_when_full = {{"p11,3", true}};
  Search search({spec("r0")}, 2);
  REQUIRE(world.run(search));
  REQUIRE(search.region(0).winner());
  CHECK(search.region(0).winner()->program != "p11,3");
  CHECK(search.region(0).winner()->ms == doctest::Approx(1.1));
}

TEST_CASE("a rival inside the noise is measured again on the way, and that counts at the end") {
  // Wide intervals and one cell: every better genome is contested.
  class Noisy : public ValleyEvaluator {
   public:
    using ValleyEvaluator::ValleyEvaluator;
    Result<Evaluation> evaluate(const RegionSpec& region, const coder::Candidate& c, bool full,
                                double give_up) override {
      auto e = ValleyEvaluator::evaluate(region, c, full, give_up);
      if (!e || !e->bench) return e;
      e->bench->lo_ms = 0.5 * e->bench->median_ms;
      e->bench->hi_ms = 1.5 * e->bench->median_ms;
      e->compile = CompileReport{};
      e->compile->kernels.emplace_back();
      e->compile->launches.push_back({0, 1, 1, 1, 0, 1.0});
      return e;
    }
  };
  FakeClock clock;
  Noisy evaluator(&clock);
  Recorder sink;
  RunOptions options;
  options.budget = {0, 120};
  Search search({spec("r0")}, 4);
  REQUIRE(run_search(search, evaluator, nullptr, sink, clock, options));
  int on_the_way = 0, full = 0;
  for (std::size_t i = 0; i < evaluator.log.size(); ++i) {
    const bool again = evaluator.log[i].find('!') != std::string::npos;
    full += again ? 1 : 0;
    on_the_way += again && i < 120 ? 1 : 0;
  }
  CHECK(on_the_way >= 1);
  CHECK(on_the_way <= 120 / 24);
  CHECK(full <= on_the_way + 3);
  CHECK(search.region(0).winner());
  CHECK(search.region(0).archive().filled() == 1);
  // The archive's elite was not displaced by anything that was not measured again.
  CHECK(search.region(0).archive().best()->ms >= search.region(0).best_ms());
}

TEST_CASE("where nothing passes, or nothing can be emitted, there is no winner and an end") {
  World world;
  world.options.budget = {0, 30};
  world.evaluator.always_wrong = true;
  Search search({spec("r0")}, 2);
  REQUIRE(world.run(search));
  CHECK_FALSE(search.region(0).winner());

  World unbuilt;
  auto domain = std::make_shared<GridDomain>(4);
  domain->broken = true;
  RegionSpec region = spec("r0");
  region.domain = domain;
  Search second({region}, 2);
  auto result = unbuilt.run(second);
  REQUIRE(result);
  CHECK(result->stopped == Stopped::exhausted);
  CHECK(unbuilt.sink.unbuilt == 16);
  CHECK(unbuilt.evaluator.log.empty());
}
