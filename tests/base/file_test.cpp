#include "base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

using namespace planish;
namespace fs = std::filesystem;

TEST_CASE("a folder goes with all that lies in it, however deep") {
  const auto dir = TempDir::create("planish-file-");
  REQUIRE(dir.has_value());
  const fs::path kept = dir->path() / "kept", gone = dir->path() / "gone";
  REQUIRE(write_file(kept / "file", "mine").has_value());
  REQUIRE(write_file(gone / "a" / "file", "x").has_value());
  fs::create_symlink(kept, gone / "link");
  fs::create_directories(gone / "locked" / "inner");
  fs::permissions(gone / "locked", fs::perms::none);
  // Far longer together than any path may be.
  const std::string name(200, 'd');
  int at = ::open(gone.c_str(), O_PATH | O_DIRECTORY);
  for (int depth = 0; depth < 300; ++depth) {
    REQUIRE(::mkdirat(at, name.c_str(), 0700) == 0);
    const int next = ::openat(at, name.c_str(), O_PATH | O_DIRECTORY);
    ::close(at);
    at = next;
  }
  ::close(at);
  remove_tree(gone);
  CHECK_FALSE(fs::exists(gone));
  CHECK(read_file(kept / "file").value_or("") == "mine");
}

TEST_CASE("what is no file is not read, and nobody is waited for") {
  const auto dir = TempDir::create("planish-file-");
  REQUIRE(dir.has_value());
  const fs::path pipe = dir->path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const fs::path& path : {pipe, fs::path("/dev/zero"), dir->path()}) {
    const auto read = read_file(path);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().kind.name() == "not_a_file");
  }
  CHECK(read_file(dir->path() / "none").error().kind.name() == "no_such_file");
  CHECK(read_file("/proc/self/stat").has_value());
}
