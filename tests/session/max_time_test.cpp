// Runs that have an end: what each phase leaves where the time of --max-time is over in it, and what is not begun.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/json.h"
#include "flow_world.h"
#include "session/result_text.h"

using namespace planish;
using namespace planish::session;
using namespace planish::session::testing;

TEST_CASE("--max-time: the search makes room for proof and timing, and a run in time is as any other") {
  World world;
  world.evaluator.clock = &world.clock;
  world.evaluator.evaluate_seconds = 1;
  world.evaluator.verify_seconds = 5;
  world.request.budget = {10000, 0};
  world.request.max_seconds = 120;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->out_of_time.empty());
  CHECK(result->seconds_total < 120);
  CHECK(world.evaluator.evaluated.size() > 5);
}

TEST_CASE("--max-time: what each phase leaves where the time ends in it") {
  SUBCASE("capture: nothing, and an error that says so") {
    World world;
    world.request.max_seconds = 30;
    world.evaluator.late = "open";
    auto result = world.run();
    REQUIRE_FALSE(result);
    CHECK(result.error().kind.name() == "out_of_time");
    CHECK(result.error().message.find("the 30 s of --max-time were over before") != std::string::npos);
    CHECK(result.error().hint.find("--max-time") != std::string::npos);
    CHECK(world.stores_opened == 0);
  }
  SUBCASE("check: a baseline, resumable") {
    World world;
    world.request.max_seconds = 30;
    world.evaluator.late = "evaluate";
    auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "interrupted");
    CHECK(result->out_of_time == "check");
    CHECK(result->form == "baseline");
    CHECK(result->reason.find("(--resume run1 goes on); no program had been checked by then") != std::string::npos);
    CHECK(result->until_then == "no program had been checked by then");
    CHECK(world.kept().state == "interrupted");
    world.evaluator.late.clear();
    world.request.resume = true;
    auto resumed = world.run();
    REQUIRE(resumed);
    CHECK(resumed->outcome == "improved");
  }
  SUBCASE("proof: what is not proved is not claimed") {
    World world;
    world.request.max_seconds = 30;
    world.evaluator.late = "verify";
    auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "interrupted");
    CHECK(result->out_of_time == "ship");
    CHECK(result->form == "baseline");
    CHECK_FALSE(result->accuracy->verified);
    CHECK(world.shipper.shipped.back().program.empty());
  }
  SUBCASE("timing: what is proved ships, without a claim") {
    World world;
    world.request.max_seconds = 30;
    world.evaluator.late = "claim";
    auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "interrupted");
    CHECK(result->out_of_time == "claim");
    CHECK(result->form == "program");
    CHECK(result->accuracy->verified);
    CHECK(result->speedup.empty());
    CHECK_FALSE(world.shipper.shipped.back().program.empty());
    const auto json = parse_json(to_json(*result), "bad_text", "result");
    REQUIRE(json);
    CHECK((*json)["seconds"]["ended_in"] == "claim");
    CHECK((*json)["seconds"]["max"] == 30);
  }
  SUBCASE("timing, with the program's own first: what is proved ships, without a claim") {
    World world;
    world.request.max_seconds = 30;
    world.evaluator.late_mode = "shipped";
    auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "interrupted");
    CHECK(result->out_of_time == "claim");
    CHECK(result->form == "program");
    CHECK(result->accuracy->verified);
    CHECK(result->speedup.empty());
    CHECK_FALSE(world.shipper.shipped.back().program.empty());
  }
  SUBCASE("timing, with the only baseline: what is proved ships, without a claim") {
    World world;
    world.request.max_seconds = 30;
    world.request.baselines = {"eager"};
    world.evaluator.late_mode = "eager";
    auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "interrupted");
    CHECK(result->form == "program");
    CHECK(result->speedup.empty());
  }
  SUBCASE("a baseline: the others are compared, and the run is not finished") {
    World world;
    world.request.max_seconds = 30;
    world.evaluator.late_mode = "max_autotune";
    auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "interrupted");
    CHECK(result->form == "program");
    CHECK(result->best_baseline == "max_autotune_no_cudagraphs");
  }
  SUBCASE("without a limit it is an error like any other") {
    World world;
    world.evaluator.late = "verify";
    auto result = world.run();
    REQUIRE_FALSE(result);
    CHECK(result.error().kind.name() == "out_of_time");
  }
}

TEST_CASE("what another way comes to is proved once, and where that fails what is without it") {
  for (const bool fails : {false, true}) {
    for (const bool long_proof : {false, true}) {
      World world;
      world.evaluator.clock = &world.clock;
      world.evaluator.regions = 2;
      world.planner.other_way = true;
      world.evaluator.way_ms = -10;
      if (fails) world.evaluator.wrong_at_full = {"way0"};
      world.request.max_seconds = 200;
      world.evaluator.proof_seconds = long_proof ? 110 : 10;
      auto result = world.run();
      REQUIRE(result);
      CHECK(result->outcome == "improved");
      CHECK(world.shipper.shipped.back().program == (fails ? "whole;r0=9;r1=9" : "whole;way0;r2=9"));
      // On one seed, then at once through the whole contract; what is without it has passed one seed before that.
      CHECK(std::ranges::count(world.evaluator.evaluated, "whole;way0;r2=9") == 2);
      CHECK(std::ranges::count(world.evaluator.evaluated, "whole;r0=9;r1=9") == (fails ? 2 : 1));
    }
  }
}
