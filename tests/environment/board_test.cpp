#include "environment/board.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using namespace planish;
using namespace planish::environment;

namespace {

Submission of(const std::string& task, const std::string& completion = "x", const std::string& id = "") {
  return {id, task, task + ".py", completion};
}
Grade right() {
  Grade out;
  out.outcome = "ok";
  out.correct = true;
  out.reward = 1;
  return out;
}
Grade lost() {
  return not_judged({"worker_lost", "gone", {}, {}}, Form::module);
}

}  // namespace

TEST_CASE("a submission is told once it is done") {
  FakeClock clock;
  Board board({.devices = 1}, clock);
  const auto id = board.submit(of("a"));
  REQUIRE(id.has_value());
  std::vector<Report> heard;
  const auto hear = [&](const Report& report) { heard.push_back(report); };
  CHECK(board.watch(*id, clock.now() + std::chrono::seconds(10), hear));
  const auto work = board.take(0, {});
  REQUIRE(work.has_value());
  clock.advance(std::chrono::seconds(2));
  board.finish(0, work->id, right());
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].stage == Stage::done);
  CHECK(heard[0].judged_seconds == doctest::Approx(2));
  CHECK(board.watch(*id, clock.now(), hear));
  CHECK(heard.size() == 2);
  CHECK(!board.watch("unknown", clock.now(), hear));
  CHECK(board.idle());
}

TEST_CASE("a watcher whose time is over hears how it stands") {
  FakeClock clock;
  Board board({.devices = 1}, clock);
  (void)board.submit(of("a"));
  const auto second = board.submit(of("b"));
  std::vector<Report> heard;
  board.watch(*second, clock.now() + std::chrono::seconds(1), [&](const Report& report) { heard.push_back(report); });
  board.tick();
  CHECK(heard.empty());
  clock.advance(std::chrono::seconds(1));
  board.tick();
  board.tick();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].stage == Stage::queued);
  CHECK(heard[0].ahead == 1);
}

TEST_CASE("a full queue refuses, and an id joins what it names") {
  FakeClock clock;
  Board board({.devices = 1, .queue = 1}, clock);
  CHECK(board.submit(of("a", "x", "one")).has_value());
  CHECK(board.submit(of("b")).error().kind.name() == "queue_full");
  CHECK(*board.submit(of("a", "x", "one")) == "one");
  CHECK(board.submit(of("a", "y", "one")).error().kind.name() == "id_taken");
  CHECK(board.retry_seconds() >= 1);
  CHECK(board.metrics().find("planish_refused_total 1\n") != std::string::npos);
}

TEST_CASE("what is in doubt is judged once more, and then named") {
  FakeClock clock;
  Board board({.devices = 1}, clock);
  const auto id = board.submit(of("a"));
  (void)board.submit(of("b"));
  Report last;
  board.watch(*id, clock.now() + std::chrono::seconds(10), [&](const Report& report) { last = report; });
  auto work = board.take(0, {});
  board.finish(0, work->id, lost());
  CHECK(last.id.empty());
  work = board.take(0, {});
  CHECK(work->id == *id);
  board.finish(0, work->id, lost());
  REQUIRE(last.grade != nullptr);
  CHECK(last.grade->error->kind.name() == "worker_lost");
  CHECK(last.attempts == 2);
}

TEST_CASE("devices share the load, and take over where one has nothing to do") {
  FakeClock clock;
  Board board({.devices = 2}, clock);
  for (const char* task : {"a", "b", "a", "b"}) (void)board.submit(of(task));
  CHECK(board.take(0, {})->submission.task == "a");
  CHECK(board.take(0, {})->submission.task == "a");
  CHECK(board.take(0, {})->submission.task == "b");
  CHECK(board.take(1, {})->submission.task == "b");
}

TEST_CASE("a warm task comes first, and nobody waits for ever because of it") {
  FakeClock clock;
  Board board({.devices = 1}, clock);
  (void)board.submit(of("cold"));
  for (int i = 0; i < 40; ++i) (void)board.submit(of("warm"));
  int before = 0;
  while (board.take(0, {"warm"})->submission.task == "warm") ++before;
  CHECK(before > 0);
  CHECK(before <= 16);
}

TEST_CASE("a closed board works off what it has; an abandoned one tells everybody") {
  FakeClock clock;
  Board board({.devices = 1}, clock);
  (void)board.submit(of("a"));
  const auto second = board.submit(of("b"));
  const auto work = board.take(0, {});
  board.close();
  CHECK(board.submit(of("c")).error().kind.name() == "stopping");
  Report last;
  board.watch(*second, clock.now() + std::chrono::seconds(10), [&](const Report& report) { last = report; });
  board.abandon();
  REQUIRE(last.grade != nullptr);
  CHECK(last.grade->error->kind.name() == "stopped");
  board.finish(0, work->id, right());
  CHECK(!board.take(0, {}).has_value());
}

TEST_CASE("old grades are forgotten") {
  FakeClock clock;
  Board board({.devices = 1, .kept = 2}, clock);
  std::vector<std::string> ids;
  for (const char* task : {"a", "b", "c"}) {
    ids.push_back(*board.submit(of(task)));
    board.finish(0, board.take(0, {})->id, right());
  }
  const auto ignore = [](const Report&) {};
  CHECK(!board.watch(ids[0], clock.now(), ignore));
  CHECK(board.watch(ids[2], clock.now(), ignore));
}

TEST_CASE("many threads lose nothing") {
  Board board({.devices = 2, .queue = 10000}, real_clock());
  std::atomic<int> told{0}, tries{0};
  std::vector<std::thread> stations;
  for (std::size_t device = 0; device < 2; ++device) {
    stations.emplace_back([&, device] {
      while (auto work = board.take(device, {})) board.finish(device, work->id, ++tries % 3 == 0 ? lost() : right());
    });
  }
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      for (int i = 0; i < 250; ++i) {
        const auto id = board.submit(of("t" + std::to_string(i % 5)));
        board.watch(*id, deadline_in(60), [&](const Report& report) { told += report.stage == Stage::done ? 1 : 0; });
      }
    });
  }
  for (auto& client : clients) client.join();
  board.close();
  for (auto& station : stations) station.join();
  CHECK(told == 1000);
}
