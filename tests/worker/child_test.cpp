// What a client makes of a child's misbehaviour.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "worker/rpc.h"
#include "worker/runner.h"

using namespace planish;
using worker::Runner;

namespace {
Runner fake(const std::string& mode) {
  SpawnOptions options;
  options.command = {"python3", std::string(PLANISH_SOURCE_DIR) + "/tests/worker/fake_child.py", mode};
  options.channel = true;
  auto runner = Runner::start(options, Runner::Kind::native);
  REQUIRE(runner.has_value());
  return std::move(*runner);
}

std::string kind_of(const std::string& mode, bool alive_after, double timeout = 30) {
  Runner runner = fake(mode);
  const auto reply = runner.run(1, "d", timeout);
  REQUIRE(!reply.has_value());
  CHECK(runner.alive() == alive_after);
  return std::string(reply.error().kind.name());
}
}  // namespace

TEST_CASE("answers, with events before them and any amount of output") {
  Runner good = fake("good");
  CHECK(*good.run(1, "d", 30) == doctest::Approx(1.5));
  CHECK(*good.run(1, "d", 30) == doctest::Approx(1.5));
  Runner flood = fake("flood");
  CHECK(*flood.run(1, "d", 60) == doctest::Approx(2.5));
}

TEST_CASE("each death has its name") {
  CHECK(kind_of("hang", false, 0.5) == "hang");
  CHECK(kind_of("exit", false) == "exit");
  CHECK(kind_of("killed", false) == "killed");
  CHECK(kind_of("memory", false) == "out_of_memory");
  Runner crash = fake("crash");
  const auto reply = crash.run(1, "d", 30);
  REQUIRE(!reply.has_value());
  CHECK(reply.error().kind.name() == "crash");
  CHECK(reply.error().message.find("signal 11") != std::string::npos);
  REQUIRE(!reply.error().causes.empty());
  CHECK(reply.error().causes.back().find("last words") != std::string::npos);
  CHECK(crash.run(1, "d", 30).error().kind.name() == "exit");  // gone, and says so at once
}

TEST_CASE("who says something all the time is not listened to for ever") {
  CHECK(kind_of("talks", false, 0.5) == "hang");
  CHECK(kind_of("mumbles", false, 0.5) == "hang");
}

TEST_CASE("who is stopped and left so is ended, long before the limit of its request") {
  SpawnOptions options;
  options.command = {"python3", std::string(PLANISH_SOURCE_DIR) + "/tests/worker/fake_child.py", "stopped"};
  options.channel = true;
  auto left = worker::Child::start("oracle", options);
  REQUIRE(left.has_value());
  (*left)->set_stop_limit(0.4);
  const auto reply = (*left)->call("hello", Json::object(), {}, 60);
  REQUIRE_FALSE(reply.has_value());
  CHECK(reply.error().kind.name() == "killed");
  CHECK(reply.error().message.find("the oracle (process ") == 0);
  CHECK(reply.error().message.find("was stopped by a signal (SIGSTOP or job control) during `hello`") !=
        std::string::npos);
  CHECK_FALSE((*left)->alive());
  // One that somebody lets go on in time answers, as often as it is stopped.
  auto helped = worker::Child::start("oracle", options);
  REQUIRE(helped.has_value());
  (*helped)->set_stop_limit(20);
  std::atomic<bool> done = false;
  std::thread helper([&] {
    while (!done) {
      ::kill((*helped)->pid(), SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  CHECK((*helped)->call("run", Json::object(), {}, 60).has_value());
  done = true;
  helper.join();
}

TEST_CASE("a fault's place reaches the caller") {
  Runner runner = fake("fault");
  CHECK(runner.run(1, "d", 30).error().kind.name() == "crash");
  REQUIRE(runner.fault().has_value());
  CHECK(runner.fault()->where == "guard:output:1");
  CHECK(runner.fault()->signal == 11);
}

TEST_CASE("what is no answer is not believed") {
  CHECK(kind_of("garbage", false) == "protocol");
  CHECK(kind_of("deep", false) == "protocol");
  CHECK(kind_of("wrong_id", false) == "protocol");
  CHECK(kind_of("too_many_fds", false) == "protocol");
  CHECK(kind_of("missing_fds", false) == "protocol");
  CHECK(kind_of("no_number", true) == "protocol");
}

TEST_CASE("errors that it reports are its own") {
  CHECK(kind_of("reported", true) == "launch_failed");
  // A word that is none of ours stays in the message.
  CHECK(kind_of("invented", true) == "runner_error");
}
