// Runs that a person interrupts after the search: what is proved by then stays, and nothing is waited for.
#include <doctest/doctest.h>

#include "flow_world.h"
#include "session/result_text.h"

using namespace planish;
using namespace planish::session;
using namespace planish::session::testing;

namespace {

/// Nothing of the search ships, and the run goes on to its end when it is asked to.
void leaves_a_baseline(const char* call, const std::string& phase, const std::string& words) {
  World world;
  world.evaluator.cancel_in = call;
  const auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "interrupted");
  CHECK(result->form == "baseline");
  CHECK(result->reason.find(words) != std::string::npos);
  CHECK(result->reason.find("(--resume run1 goes on)") != std::string::npos);
  CHECK(result->seconds_in.back().first == phase);
  CHECK(result->times.empty());
  CHECK(result->speedup.empty());
  CHECK_FALSE(result->accuracy->verified);
  CHECK(world.evaluator.verified == 0);
  CHECK(world.shipper.shipped.back().baseline == "eager");
  CHECK(to_text(*result).starts_with("fake: nothing proved (interrupted)\n"));
  CHECK(world.kept().state == "interrupted");
  CHECK(world.kept().speedup == 0);
  const std::size_t measured = world.records().size();
  world.evaluator.cancel_in.clear();
  world.evaluator.cancel = CancelToken();
  world.evaluator.ends_calls = world.evaluator.searched = false;
  world.request.resume = true;
  const auto resumed = world.run();
  REQUIRE(resumed);
  CHECK(resumed->outcome == "improved");
  CHECK(world.kept().state == "finished");
  CHECK(world.records().size() > measured);
}

}  // namespace

TEST_CASE("interrupted before the search: nothing is waited for, and --resume goes on") {
  leaves_a_baseline("check", "check", "interrupted while the captured program was checked: nothing is proved");
  leaves_a_baseline("prepare", "prepare",
                    "interrupted while PyTorch's form of regions was measured: nothing is proved");
}

TEST_CASE("interrupted while the whole is checked: a baseline ships, and --resume goes on") {
  leaves_a_baseline("compose", "compose", "interrupted while the whole program was checked: nothing is proved");
}

TEST_CASE("interrupted while it is proved: what is not proved does not ship") {
  leaves_a_baseline("verify", "ship", "interrupted while what was found was proved: nothing is proved");
}

TEST_CASE("interrupted while it is timed: what is proved ships, and claims nothing") {
  for (const char* call : {"claim", "verify a baseline"}) {
    CAPTURE(call);
    World world;
    world.evaluator.cancel_in = call;
    // Slower than a baseline, so that this one would ship: it is proved first.
    if (call == std::string("verify a baseline")) world.evaluator.baseline_ms["compile"] = 0.01;
    const auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "interrupted");
    CHECK(result->form == "program");
    CHECK(result->reason.find("interrupted while it was timed: what ships is proved and has no times") == 0);
    CHECK(result->accuracy->verified);
    CHECK(result->times.empty());
    CHECK(result->speedup.empty());
    CHECK(world.shipper.shipped.back().baseline.empty());
    CHECK_FALSE(world.shipper.shipped.back().program.empty());
    CHECK(to_text(*result).starts_with("fake: proved, not timed (interrupted)\n"));
    CHECK(world.kept().state == "interrupted");
  }
}
