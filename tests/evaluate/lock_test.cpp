#include "evaluate/lock.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/work_scope.h"
#include "lock_folder.h"

using namespace planish;
using planish::testing::LockFolder;

TEST_CASE("who waits for a device hears who holds it, and is not kept longer than the work may take") {
  const LockFolder folder;
  auto held = lock_device("GPU-1/2", "a.py", 5);
  REQUIRE(held.has_value());
  std::vector<std::string> heard;
  const WorkScope scope(1, [&heard](const WorkReport& report) { heard.emplace_back(report.text); });
  const auto late = lock_device("GPU-1/2", "b.py", 1000);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().kind.name() == "out_of_time");
  const std::string who = "a.py (pid " + std::to_string(::getpid());
  CHECK(late.error().message.find(who) != std::string::npos);
  REQUIRE_FALSE(heard.empty());
  CHECK(heard.front().find(who) != std::string::npos);
  CHECK(heard.front().starts_with("waiting to measure on GPU-1/2: "));
  CHECK(lock_device("GPU-3", "b.py", 1000).has_value());  // another device is free
}

TEST_CASE("a lock that is let go and wanted again goes to who has waited") {
  const LockFolder folder;
  std::optional<FileLock> held = std::move(lock_device("cpu", "greedy.py", 5).value());
  std::atomic<bool> waits{false}, got{false};
  std::thread waiter([&] {
    waits = true;
    const auto lock = lock_device("cpu", "patient.py", 30);
    got = lock.has_value();
  });
  // Until it has taken its place: then only it may be next.
  const auto next = folder.folder.path() / "planish-cpu.next.lock";
  while (!waits) std::this_thread::yield();
  while (true) {
    const auto probe = FileLock::try_acquire(next);
    if (!probe.has_value()) break;
  }
  held.reset();
  const auto again = lock_device("cpu", "greedy.py", 30);
  CHECK(again.has_value());
  CHECK(got);
  waiter.join();
}

TEST_CASE("the lock's file is everybody's, and no link is followed") {
  const LockFolder folder;
  const auto file = folder.folder.path() / "planish-cpu.lock";
  {
    const auto held = lock_device("cpu", "a\nb.py", 5);
    REQUIRE(held.has_value());
    struct stat info{};
    REQUIRE(::stat(file.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0666);
    CHECK(FileLock::description(file).starts_with("a b.py (pid"));
  }
  const auto victim = folder.folder.path() / "victim";
  REQUIRE(write_file(victim, "precious", 0600).has_value());
  std::filesystem::remove(file);
  std::filesystem::create_symlink(victim, file);
  CHECK_FALSE(lock_device("cpu", "a.py", 0.1).has_value());
  CHECK(read_file(victim).value() == "precious");
}

TEST_CASE("many run on a device at once, who measures has it alone") {
  const LockFolder folder;
  auto first = lock_device("GPU-1", "a.py", 5, DeviceUse::run);
  auto second = lock_device("GPU-1", "b.py", 0, DeviceUse::run);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  const auto early = lock_device("GPU-1", "c.py", 0.01);
  REQUIRE_FALSE(early.has_value());
  CHECK(early.error().kind.name() == "timeout");
  CHECK(early.error().message.ends_with("to measure on GPU-1: others run something there"));
  first = fail("closed", "let go");
  second = fail("closed", "let go");
  const auto alone = lock_device("GPU-1", "c.py", 5);
  REQUIRE(alone.has_value());
  const auto late = lock_device("GPU-1", "d.py", 0.01, DeviceUse::run);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().message.find("to run on GPU-1: c.py (pid") != std::string::npos);
}

TEST_CASE("where somebody waits to measure, nobody begins to run") {
  const LockFolder folder;
  std::optional<FileLock> running = std::move(lock_device("GPU-1", "a.py", 5, DeviceUse::run).value());
  std::atomic<bool> measured{false};
  std::thread waiter([&] {
    const auto lock = lock_device("GPU-1", "patient.py", 30);
    measured = lock.has_value();
  });
  const auto next = folder.folder.path() / "planish-GPU-1.next.lock";
  while (FileLock::try_acquire(next).has_value()) std::this_thread::yield();
  CHECK_FALSE(lock_device("GPU-1", "b.py", 0.01, DeviceUse::run).has_value());
  running.reset();
  CHECK(lock_device("GPU-1", "b.py", 30, DeviceUse::run).has_value());
  waiter.join();
  CHECK(measured);
}

TEST_CASE("what a thread waited for a device is counted") {
  const LockFolder folder;
  const double before = device_wait_seconds();
  std::optional<FileLock> held = std::move(lock_device("GPU-1", "a.py", 5).value());
  CHECK_FALSE(lock_device("GPU-1", "b.py", 0.05, DeviceUse::run).has_value());
  CHECK(device_wait_seconds() - before >= 0.05);
}
