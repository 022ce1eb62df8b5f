#include "session/preparing_time.h"

#include <doctest/doctest.h>

#include <utility>

#include "base/file.h"

namespace planish::session {
namespace {

TEST_CASE("PyTorch's forms are measured for a part of a limited time, and a person hears of those that are not") {
  PreparingTime all;
  CHECK(all.measures(1e9, "r0", nullptr));
  CHECK(all.note().empty());

  PreparingTime some;
  some.limit(50, 100);
  CHECK(some.measures(60, "r0", nullptr));
  CHECK_FALSE(some.measures(90, "r1", nullptr));
  CHECK_FALSE(some.measures(91, "r2", nullptr));
  CHECK(some.note().find("form of 2 regions was not measured") != std::string::npos);
}

TEST_CASE("a replay measures what the recording measured, whatever its own time") {
  const TempDir folder = std::move(TempDir::create().value());
  {
    auto tape = Tape::record(folder.path() / "cassette", "{}");
    REQUIRE(tape.has_value());
    PreparingTime recorded;
    recorded.limit(0, 100);
    CHECK(recorded.measures(1, "r0", tape->get()));
    CHECK_FALSE(recorded.measures(99, "r1", tape->get()));
  }
  auto tape = Tape::replay(folder.path() / "cassette");
  REQUIRE(tape.has_value());
  PreparingTime replayed;
  CHECK(replayed.measures(99, "r0", tape->get()));
  CHECK_FALSE(replayed.measures(1, "r1", tape->get()));
  CHECK(replayed.measures(1, "r2", tape->get()));  // which an older recording does not know
}

}  // namespace
}  // namespace planish::session
