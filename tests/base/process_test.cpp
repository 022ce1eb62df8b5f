#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/channel.h"
#include "base/file.h"
#include "base/json.h"
#include "base/owned_folder.h"
#include "base/subprocess.h"

using namespace planish;

namespace {
SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.command = {"/bin/sh", "-c", script};
  return options;
}
}  // namespace

TEST_CASE("a command's status and output, its input and environment") {
  SpawnOptions options = shell("cat; echo $GREETING; echo err >&2; exit 3");
  options.input = "in\n";
  options.env.emplace_back("GREETING", "hello");
  const auto result = run_command(options, 20);
  REQUIRE(result.has_value());
  CHECK(result->status.code == 3);
  CHECK(result->output == "in\nhello\nerr\n");
}

TEST_CASE("a missing program, one that is not executable") {
  SpawnOptions options;
  options.command = {"/no/such/program"};
  CHECK(run_command(options, 5).error().kind.name() == "no_such_program");
  options.command = {"/etc/passwd"};
  CHECK(run_command(options, 5).error().kind.name() == "permission_denied");
}

TEST_CASE("a signal is told from a status") {
  const auto result = run_command(shell("kill -SEGV $$"), 20);
  REQUIRE(result.has_value());
  CHECK(result->status.signal == SIGSEGV);
}

TEST_CASE("a child that hangs is ended with its whole group") {
  auto child = Subprocess::spawn(shell("sleep 1000 & echo $!; wait"));
  REQUIRE(child.has_value());
  while (child->output_tail().find('\n') == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const pid_t grandchild = std::stoi(child->output_tail());
  CHECK(child->wait(deadline_in(0.05)).error().kind.name() == "timeout");
  child->kill();
  const auto status = child->wait(deadline_in(10));
  REQUIRE(status.has_value());
  CHECK(status->signal == SIGKILL);
  for (int i = 0; i < 2000 && ::kill(grandchild, 0) == 0; ++i) {
    const auto stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
    if (!stat.has_value() || stat->find(") Z") != std::string::npos)
      break;  // dead, and not reaped where nobody reaps orphans
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto stat = read_file("/proc/" + std::to_string(grandchild) + "/stat");
  CHECK((!stat.has_value() || stat->find(") Z") != std::string::npos));
}

TEST_CASE("a flood is drained, and only its end kept") {
  const auto result = run_command(shell("head -c 5000000 /dev/zero | tr '\\0' x; echo end"), 60);
  REQUIRE(result.has_value());
  CHECK(result->output.size() <= 64U << 10U);
  CHECK(result->output.ends_with("xend\n"));
}

TEST_CASE("children outlive the thread that asked for them") {
  std::optional<Subprocess> child;
  std::thread([&] {
    auto spawned = Subprocess::spawn(shell("sleep 0.2; exit 5"));
    if (spawned.has_value()) child = std::move(*spawned);
  }).join();
  REQUIRE(child.has_value());
  const auto status = child->wait(deadline_in(20));
  REQUIRE(status.has_value());
  CHECK(status->code == 5);
}

TEST_CASE("cancelling ends a wait") {
  CancelToken token;
  auto child = Subprocess::spawn(shell("sleep 100"));
  REQUIRE(child.has_value());
  token.cancel();
  CHECK(child->wait(deadline_in(50), &token).error().kind.name() == "cancelled");
}

TEST_CASE("lines and descriptors through a channel") {
  auto ends = Channel::pair();
  REQUIRE(ends.has_value());
  Channel& left = ends->first;
  Channel right(std::move(ends->second));
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const int fds[1] = {pipe_ends[1]};
  REQUIRE(left.send("one", fds, deadline_in(5)).has_value());
  REQUIRE(left.send("two", {}, deadline_in(5)).has_value());
  CHECK(*right.receive(deadline_in(5)) == "one");
  CHECK(*right.receive(deadline_in(5)) == "two");
  auto taken = right.take_fds(1);
  REQUIRE(taken.has_value());
  CHECK(::write(taken->front().get(), "x", 1) == 1);
  char c = 0;
  CHECK(::read(pipe_ends[0], &c, 1) == 1);
  CHECK(c == 'x');
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  CHECK(right.take_fds(1).error().kind.name() == "bad_message");
  CHECK(right.receive(deadline_in(0.01)).error().kind.name() == "timeout");
  CHECK(left.send("a\nb", {}, deadline_in(1)).error().kind.name() == "bad_message");
  left.close();
  CHECK(right.receive(deadline_in(5)).error().kind.name() == "closed");
}

TEST_CASE("a long line crosses whole while the reader reads") {
  auto ends = Channel::pair();
  REQUIRE(ends.has_value());
  Channel right(std::move(ends->second));
  const std::string line(3 << 20, 'y');
  std::thread writer([&] { (void)ends->first.send(line, {}, deadline_in(20)); });
  const auto got = right.receive(deadline_in(20));
  writer.join();
  REQUIRE(got.has_value());
  CHECK(*got == line);
}

TEST_CASE("files appear whole; errors have kinds") {
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  const auto path = folder->path() / "a" / "b.txt";
  REQUIRE(write_file(path, "one").has_value());
  REQUIRE(write_file(path, "two").has_value());
  CHECK(*read_file(path) == "two");
  CHECK(read_file(folder->path() / "none").error().kind.name() == "no_such_file");
  CHECK(read_file(folder->path()).error().kind.name() == "not_a_file");
  CHECK(write_file("/proc/planish/x", "y").error().message.find("/proc/planish") != std::string::npos);
  if (::access("/dev/full", W_OK) == 0) CHECK(file_error(ENOSPC, "write", "x").kind.name() == "disk_full");
}

TEST_CASE("two holders of one lock take turns") {
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  const auto path = folder->path() / "device.lock";
  {
    const auto first = FileLock::try_acquire(path);
    REQUIRE(first.has_value());
    CHECK(FileLock::try_acquire(path).error().kind.name() == "busy");
    CHECK(FileLock::acquire(path, 0.01).error().kind.name() == "timeout");
  }
  CHECK(FileLock::acquire(path, 5).has_value());
  // A process that dies holding it leaves it free.
  auto child = Subprocess::spawn(shell("exec 9<>" + path.string() + "; flock -n 9 || exit 1; echo held; sleep 1000"));
  REQUIRE(child.has_value());
  while (child->output_tail().find("held") == std::string::npos && !child->poll().has_value())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(FileLock::try_acquire(path).error().kind.name() == "busy");
  child->kill();
  CHECK(FileLock::acquire(path, 10).has_value());
}

TEST_CASE("a lock is of the file that is at its path") {
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  const auto path = folder->path() / "run.lock";
  // Everybody removes the file when they are done, and still no two hold it at once.
  std::atomic<int> inside{0}, most{0}, turns{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto lock = FileLock::acquire(path, 20);
        if (!lock.has_value()) continue;
        most = std::max<int>(most, ++inside);
        ++turns;
        --inside;
        std::filesystem::remove(path);  // from here on another may have it
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(turns == 400);
  CHECK(most == 1);
}

TEST_CASE("folders of owners that were killed are removed, those in use are not") {
  auto root = TempDir::create();
  REQUIRE(root.has_value());
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", root->path().c_str(), 1);
  const auto used = OwnedFolder::create("planish-own-");
  REQUIRE(used.has_value());
  const auto dead = root->path() / "planish-own-dead", other = root->path() / "planish-other";
  std::filesystem::create_directories(dead / "inside");
  std::filesystem::create_directories(other);
  std::filesystem::create_directory_symlink(other, root->path() / "planish-own-link");
  REQUIRE(write_file(dead / "inside" / "file", "x").has_value());
  CHECK(used->path().filename().string().starts_with("planish-own-"));
  std::filesystem::create_directories(root->path() / "planish-new-unowned");  // somebody is about to lock it
  CHECK(remove_ownerless_folders({"planish-own-"}, 3600) == 0);               // too young to tell
  CHECK(remove_ownerless_folders({"planish-own-"}, 0) == 1);
  CHECK_FALSE(std::filesystem::exists(dead));
  CHECK(std::filesystem::exists(used->path()));
  CHECK(std::filesystem::exists(other));
  CHECK(std::filesystem::exists(root->path() / "planish-new-unowned"));
  if (before == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", kept.c_str(), 1);
  }
}

TEST_CASE("a strict object reader names what is wrong") {
  const auto json = parse_json(R"({"a": 1, "b": "x", "c": [1, 2], "n": "inf"})", "bad_text", "doc");
  REQUIRE(json.has_value());
  std::int64_t a = 0;
  std::string b;
  double n = 0;
  ObjectReader partial(*json, "bad_text", "doc");
  partial.integer("a", a);
  partial.text("b", b);
  CHECK(partial.finish().error().message.find("unknown field `c`") != std::string::npos);
  ObjectReader wrong(*json, "bad_text", "doc");
  wrong.integer("b", a);
  CHECK(wrong.finish().error().message == "doc: field `b` must be an integer");
  ObjectReader missing(*json, "bad_text", "doc");
  missing.text("zzz", b);
  CHECK(missing.finish().error().message.find("`zzz` is missing") != std::string::npos);
  ObjectReader good(*json, "bad_text", "doc");
  good.lenient();
  good.number("n", n);
  CHECK(good.finish().has_value());
  CHECK(n > 1e300);
  CHECK(parse_json("{", "bad_text", "doc").error().kind.name() == "bad_text");
  CHECK(parse_json(std::string(100000, '['), "bad_text", "doc").error().message.find("deeper") != std::string::npos);
}

TEST_CASE("a fake clock moves when told") {
  FakeClock clock;
  const auto start = clock.now();
  clock.sleep(std::chrono::seconds(3));
  CHECK(clock.now() - start == std::chrono::seconds(3));
  CHECK(clock.wall_seconds() == doctest::Approx(3));
}
