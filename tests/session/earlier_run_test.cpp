#include "session/earlier_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace planish;
using namespace planish::session;

namespace {

constexpr const char* settings = R"({"budget_seconds":60,"baselines":["eager","compile"],"seed":1})";

store::RunRecord a_run(const std::string& id, double started) {
  store::RunRecord run;
  run.id = id;
  run.task = "net";
  run.task_path = "/net.py";
  run.task_sha256 = "abc";
  run.target = "cpu";
  run.device = "a processor";
  run.settings = settings;
  run.state = "running";
  run.started = started;
  return run;
}

/// A run that went to its end.
void keep(store::Store& store, store::RunRecord run, double seconds, const std::string& state = "finished") {
  REQUIRE(store.begin_run(run));
  run.state = state;
  run.outcome = state == "finished" ? "improved" : "interrupted";
  REQUIRE(store.finish_run(run, fmt::format(R"({{"seconds":{{"in":{{"claim":{}}}}}}})", seconds)));
}

}  // namespace

TEST_CASE("how long a phase takes is told by the last whole run of the same task, device and settings") {
  auto store = store::Store::open(":memory:").value();
  store::RunRecord now = a_run("now", 10);
  now.settings = R"({"budget_seconds":60,"baselines":["eager","compile"],"seed":2})";
  CHECK(seconds_of_earlier_run(store, now, Phase::claim) == 0);
  keep(store, a_run("first", 1), 31);
  keep(store, a_run("second", 2), 24);
  keep(store, a_run("cut off", 3), 2, "interrupted");
  REQUIRE(store.begin_run(now));
  CHECK(seconds_of_earlier_run(store, now, Phase::claim) == 24);
  CHECK(seconds_of_earlier_run(store, now, Phase::ship) == 0);  // its result does not say
}

TEST_CASE("a run of another task, device, search time or set of baselines tells nothing") {
  for (int what = 0; what < 4; ++what) {
    auto store = store::Store::open(":memory:").value();
    store::RunRecord other = a_run("other", 1);
    if (what == 0) other.task_sha256 = "def";
    if (what == 1) other.device = "another processor";
    if (what == 2) other.settings = R"({"budget_seconds":5,"baselines":["eager","compile"]})";
    if (what == 3) other.settings = R"({"budget_seconds":60,"baselines":["eager"]})";
    keep(store, other, 24);
    CHECK(seconds_of_earlier_run(store, a_run("now", 10), Phase::claim) == 0);
  }
}
