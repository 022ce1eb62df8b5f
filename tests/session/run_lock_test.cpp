#include "session/run_lock.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/file.h"

using namespace planish;
using namespace planish::session;

namespace {

/// Locks in a folder of their own.
class Runtime {
 public:
  Runtime() {
    if (const char* before = std::getenv("XDG_RUNTIME_DIR"); before != nullptr) before_ = before;
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  }
  ~Runtime() {
    if (before_.empty()) {
      ::unsetenv("XDG_RUNTIME_DIR");
    } else {
      ::setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
    }
  }
  std::filesystem::path file(const std::string& run) const { return folder_.path() / ("planish-run-" + run + ".lock"); }
  int files() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path())) ++count;
    return count;
  }

 private:
  TempDir folder_ = std::move(TempDir::create().value());
  std::string before_;
};

}  // namespace

TEST_CASE("a run's lock keeps others out, tells that it is alive, and leaves no file behind") {
  const Runtime runtime;
  {
    auto lock = lock_run("a");
    REQUIRE(lock);
    CHECK(lock_run("a").error().kind.name() == "busy");
    CHECK(live_state("a", "running") == "running");
    CHECK(live_state("a", "finished") == "finished");
    const RunLock moved = std::move(*lock);
    CHECK(runtime.files() == 1);
    CHECK(lock_run("b"));
    CHECK(runtime.files() == 1);
    CHECK(remove_dead_run_locks() == 0);
  }
  CHECK(runtime.files() == 0);
  CHECK(live_state("a", "running") == "killed");
  CHECK(runtime.files() == 0);
}

TEST_CASE("locks that killed commands left are removed") {
  const Runtime runtime;
  for (const char* run : {"x", "y", "z"}) REQUIRE(write_file(runtime.file(run), ""));
  REQUIRE(write_file(runtime.file("x").parent_path() / "planish-cpu.lock", ""));
  auto held = lock_run("z");
  REQUIRE(held);
  CHECK(live_state("x", "running") == "killed");
  CHECK_FALSE(std::filesystem::exists(runtime.file("x")));
  CHECK(remove_dead_run_locks() == 1);
  CHECK(runtime.files() == 2);  // that of the device, and the one in use
}
