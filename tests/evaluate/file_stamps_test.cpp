#include "evaluate/file_stamps.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "base/file.h"

using namespace planish;
namespace fs = std::filesystem;

namespace {

/// A moment that is later than all files so far, also by the coarse clock of the file system.
std::int64_t a_moment_later() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return FileStamps::now();
}

}  // namespace

TEST_CASE("files are unchanged until one is written, replaced or removed") {
  const auto folder = TempDir::create();
  REQUIRE(folder);
  const fs::path one = folder->path() / "one", two = folder->path() / "two";
  const auto fresh = [&] {
    REQUIRE(write_file(one, "1"));
    REQUIRE(write_file(two, "2"));
    return FileStamps({one.string(), two.string()}, a_moment_later());
  };
  CHECK(fresh().unchanged());
  const FileStamps before = fresh();
  REQUIRE(write_file(two, "3"));
  CHECK(!before.unchanged());

  const FileStamps dated = fresh();
  const auto then = fs::last_write_time(one);
  REQUIRE(write_file(one, "x"));
  fs::last_write_time(one, then);  // of the same size and date
  CHECK(!dated.unchanged());

  const FileStamps removed = fresh();
  fs::remove(one);
  CHECK(!removed.unchanged());
}

TEST_CASE("what changed while it was read, and nothing at all, are never unchanged") {
  const auto folder = TempDir::create();
  REQUIRE(folder);
  const fs::path file = folder->path() / "file";
  const std::int64_t since = a_moment_later();
  REQUIRE(write_file(file, "1"));
  CHECK(!FileStamps({file.string()}, since).unchanged());
  CHECK(!FileStamps({(folder->path() / "none").string()}, a_moment_later()).unchanged());
  CHECK(!FileStamps({}, a_moment_later()).unchanged());
  CHECK(!FileStamps().unchanged());
}
