#include "base/memory.h"

#include <doctest/doctest.h>

#include "base/file.h"

using namespace planish;

namespace {

struct Root {
  TempDir folder = std::move(TempDir::create().value());
  void write(const char* file, const char* text) const { REQUIRE(write_file(folder.path() / file, text)); }
  std::optional<std::int64_t> kills() const { return OomKills(folder.path()).read(); }
};

}  // namespace

TEST_CASE("kills for lack of memory are counted where the control group counts them") {
  Root root;
  CHECK_FALSE(root.kills().has_value());
  root.write("proc/vmstat", "nr_free_pages 5\noom_kill 9\n");
  CHECK(root.kills() == 9);
  root.write("proc/self/cgroup", "4:memory:/jobs/one\n1:cpu:/\n0::/\n");
  CHECK(root.kills() == 9);
  root.write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  CHECK(root.kills() == 3);  // a container's root
  root.write("sys/fs/cgroup/memory/jobs/one/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  CHECK(root.kills() == 2);
  root.write("proc/self/cgroup", "0::/jobs/two\n");
  root.write("sys/fs/cgroup/jobs/two/memory.events", "low 0\nhigh 7\nmax 8\noom 2\noom_kill 1\noom_group_kill 0\n");
  const OomKills counter(root.folder.path());
  CHECK(counter.read() == 1);
  root.write("sys/fs/cgroup/jobs/two/memory.events", "oom 3\noom_kill 2\n");
  CHECK(counter.read() == 2);
}

TEST_CASE("available memory in bytes") {
  Root root;
  CHECK(available_memory(root.folder.path()) == 0);
  root.write("proc/meminfo", "MemTotal:  4096 kB\nMemAvailable:     1024 kB\n");
  CHECK(available_memory(root.folder.path()) == 1024 * 1024);
  CHECK(available_memory() > 0);
}
