// What compiles beside a search: its end, and its failures.
#include "evaluate/early_baseline.h"

#include <doctest/doctest.h>

#include "base/clock.h"

using namespace planish;

namespace {

std::unique_ptr<EarlyBaseline> early(const std::string& mode, std::vector<std::string> modes = {"compile"}) {
  SpawnOptions options;
  options.command = {"python3", std::string(PLANISH_SOURCE_DIR) + "/tests/evaluate/fake_baseline.py", mode};
  options.channel = true;
  auto process = worker::Baseline::start(options);
  REQUIRE(process.has_value());
  auto begun = EarlyBaseline::begin(std::move(*process), "task.py", "cuda", "eager", std::move(modes), 60);
  REQUIRE(begun.has_value());
  return std::move(*begun);
}

}  // namespace

TEST_CASE("what was compiled behind the gate is ready once it is open, and the process answers on") {
  auto ready = early("good", {"compile", "max_autotune_no_cudagraphs"})->finish(60);
  REQUIRE(ready.has_value());
  CHECK(ready->seconds == std::map<std::string, double>{{"compile", 2.5}, {"max_autotune_no_cudagraphs", 2.5}});
  CHECK(ready->process.hello(60).has_value());
}

TEST_CASE("one that dies, fails or hangs leaves nothing: whoever asks anew hears why") {
  CHECK(!early("dies")->finish(60).has_value());
  CHECK(!early("dies behind the gate")->finish(60).has_value());
  CHECK(!early("fails")->finish(60).has_value());
  CHECK(!early("hangs")->finish(0.2).has_value());
}

TEST_CASE("given up in the middle of compiling, it ends at once") {
  const TimePoint began = real_clock().now();
  early("hangs").reset();
  early("good").reset();
  CHECK(std::chrono::duration<double>(real_clock().now() - began).count() < 60);
}
