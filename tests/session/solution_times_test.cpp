#include "session/solution_times.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "flow_world.h"

using namespace planish;
using namespace planish::session;
using namespace planish::session::testing;

namespace {

DeviceFacts processor() {
  DeviceFacts out;
  out.target = "cpu";
  return out;
}

ClaimTime time_of(const char* name, double ms) {
  ClaimTime out;
  out.name = name;
  out.median_ms = ms;
  out.lo_ms = 0.99 * ms;
  out.hi_ms = 1.01 * ms;
  out.samples_ms = {ms};
  return out;
}

/// A solution that gained so much over the task's own, in turn; its own clock says 1 ms.
SolutionTimes times(std::optional<Gain> over_eager) {
  SolutionTimes out;
  out.solution.median_ms = out.solution.lo_ms = out.solution.hi_ms = 1;
  out.solution.samples_ms = {1, 1};
  if (over_eager)
    out.solution.beside = BesideTask{{1, 1, 1}, {over_eager->ratio, over_eager->ratio, over_eager->ratio}, *over_eager};
  else
    out.solution.not_beside = "out_of_memory: there was no room";
  // Measured minutes ago, when the machine was busy.
  out.baselines.times = {time_of("eager", 464.4), time_of("max_autotune_no_cudagraphs", 232.2)};
  return out;
}

Json fields(const SolutionTimes& times) {
  return Json::parse(times_fields(times, processor()));
}

}  // namespace

TEST_CASE("a solution that is the task gains nothing, whatever its baselines took at another time") {
  const SolutionTimes same = times(Gain{1.02, 0.95, 1.08});
  const Json document = fields(same);
  CHECK(document["speedup"]["eager"] == 1.0);
  CHECK(document["gains"]["eager"]["difference"] == false);
  CHECK(document["gains"]["eager"]["hi"] == 1.08);
  CHECK(document["beside"]["solution"]["runs"] == 3);
  // Against a mode: what the mode is to eager, timed in turn with it. Here twice as fast as eager, so half of that.
  CHECK(document["speedup"]["max_autotune_no_cudagraphs"].get<double>() == doctest::Approx(0.51));
  CHECK(document["best_baseline"] == "max_autotune_no_cudagraphs");
  const std::string text = times_text(same, processor());
  CHECK(text.find("no difference to PyTorch eager (0.95 to 1.08)") != std::string::npos);
  CHECK(text.find("464") == std::string::npos);
}

TEST_CASE("what could not be timed in turn claims nothing, and says why") {
  const SolutionTimes alone = times({});
  const Json document = fields(alone);
  CHECK(document["speedup"].empty());
  CHECK(document["gains"].empty());
  CHECK(document["headline"].is_null());
  CHECK(document["speedup_best_baseline"].is_null());
  CHECK(document["not_beside"] == "out_of_memory: there was no room");
  CHECK(times_text(alone, processor()).find("no gain is claimed") != std::string::npos);
}

TEST_CASE("eager alone needs no process for baselines") {
  FakeEvaluator evaluator;
  OpenReply opened;
  opened.device = processor();
  const auto reply = baselines_of(evaluator, opened, {"eager"}, {});
  REQUIRE(reply.has_value());
  CHECK(evaluator.claims.empty());
  SolutionTimes alone = times(Gain{3, 2.9, 3.1});
  alone.baselines = *reply;
  const Json document = fields(alone);
  CHECK(document["speedup"]["eager"] == 3.0);
  CHECK(document["times_ms"]["eager"]["mean"] == 3.0);
  CHECK(document["headline"]["baseline"] == "eager");
}
