#include "evaluate/device_turn.h"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "lock_folder.h"

using namespace planish;
using planish::testing::LockFolder;

namespace {

bool free_for(DeviceUse use) {
  return lock_device("GPU-1", "probe.py", 0, use).has_value();
}

}  // namespace

TEST_CASE("a turn runs beside others, measures alone, and runs on") {
  const LockFolder folder;
  DeviceTurn turn;
  turn.of("GPU-1", false);
  REQUIRE(turn.begin("a.py", 5));
  CHECK(free_for(DeviceUse::run));
  CHECK_FALSE(free_for(DeviceUse::measure));
  {
    const auto measuring = turn.measure("a.py", 5);
    REQUIRE(measuring.has_value());
    CHECK_FALSE(free_for(DeviceUse::run));
  }
  CHECK(free_for(DeviceUse::run));
  CHECK_FALSE(free_for(DeviceUse::measure));
  turn.end();
  CHECK(free_for(DeviceUse::measure));
}

TEST_CASE("a turn that only measures leaves nothing behind") {
  const LockFolder folder;
  DeviceTurn turn;
  turn.of("GPU-1", false);
  {
    REQUIRE(turn.measure("a.py", 5).has_value());
  }
  CHECK(free_for(DeviceUse::measure));
}

TEST_CASE("two that run and want to measure do not wait for each other") {
  const LockFolder folder;
  std::atomic<int> alone{0}, most{0}, measured{0};
  const auto work = [&] {
    DeviceTurn turn;
    turn.of("GPU-1", false);
    for (int round = 0; round < 20; ++round) {
      if (!turn.begin("a.py", 30)) return;
      {
        const auto measuring = turn.measure("a.py", 30);
        if (!measuring.has_value()) return;
        most = std::max(most.load(), ++alone);
        std::this_thread::yield();
        --alone;
        ++measured;
      }
      turn.end();
    }
  };
  std::thread one(work), two(work), three(work);
  one.join();
  two.join();
  three.join();
  CHECK(measured == 60);
  CHECK(most == 1);
}

TEST_CASE("a measurement that was not to be had leaves the turn running") {
  const LockFolder folder;
  DeviceTurn turn;
  turn.of("GPU-1", false);
  REQUIRE(turn.begin("a.py", 5));
  {
    const auto other = lock_device("GPU-1", "b.py", 5, DeviceUse::run);
    REQUIRE(other.has_value());
    const auto measuring = turn.measure("a.py", 0.01);
    REQUIRE_FALSE(measuring.has_value());
    CHECK(measuring.error().kind.name() == "timeout");
  }
  CHECK_FALSE(free_for(DeviceUse::measure));
  turn.end();
  CHECK(free_for(DeviceUse::measure));
}

TEST_CASE("on the CPU only measuring takes turns") {
  const LockFolder folder;
  DeviceTurn turn;
  turn.of("cpu", true);
  REQUIRE(turn.begin("a.py", 5));
  CHECK(lock_device("cpu", "b.py", 0).has_value());
  const auto measuring = turn.measure("a.py", 5);
  REQUIRE(measuring.has_value());
  CHECK_FALSE(lock_device("cpu", "b.py", 0).has_value());
}

TEST_CASE("what needs no device lets others measure meanwhile, and runs on after it") {
  const LockFolder folder;
  DeviceTurn turn;
  turn.of("GPU-1", false);
  REQUIRE(turn.begin("a.py", 5));
  const Result<int> done = turn.away("a.py", 5, []() -> Result<int> {
    CHECK(free_for(DeviceUse::measure));
    return 7;
  });
  CHECK(done == 7);
  CHECK_FALSE(free_for(DeviceUse::measure));
  CHECK(free_for(DeviceUse::run));
}

TEST_CASE("away from a device that is measured on when it comes back") {
  const LockFolder folder;
  DeviceTurn turn;
  turn.of("GPU-1", false);
  REQUIRE(turn.begin("a.py", 5));
  std::optional<FileLock> other;
  const auto take_it = [&](Status end) {
    return turn.away("a.py", 0, [&] {
      auto taken = lock_device("GPU-1", "b.py", 5);
      if (taken.has_value()) other.emplace(std::move(*taken));
      return end;
    });
  };
  const Status back = take_it({});
  REQUIRE_FALSE(back.has_value());
  CHECK(back.error().kind.name() == "timeout");
  CHECK(back.error().message.contains("b.py"));
  other.reset();
  // What the work itself says comes first.
  REQUIRE(turn.begin("a.py", 5));
  const Status failed = take_it(fail("hang", "it hangs"));
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().kind.name() == "hang");
}

TEST_CASE("who is not on the device, or measures there, is away without a word") {
  const LockFolder folder;
  DeviceTurn turn;
  turn.of("GPU-1", false);
  CHECK(turn.away("a.py", 0, [] { return Status(); }).has_value());
  CHECK(free_for(DeviceUse::measure));
  const auto measuring = turn.measure("a.py", 5);
  REQUIRE(measuring.has_value());
  CHECK(turn.away("a.py", 0,
                  [] {
                    CHECK_FALSE(free_for(DeviceUse::run));
                    return Status();
                  })
            .has_value());
  CHECK_FALSE(free_for(DeviceUse::run));
}
