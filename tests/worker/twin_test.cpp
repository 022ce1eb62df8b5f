// A child that another child makes is ours as any other.
#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>

#include "worker/rpc.h"

using namespace planish;
using worker::Child;

namespace {
std::unique_ptr<Child> start() {
  SpawnOptions options;
  const std::string source = PLANISH_SOURCE_DIR;
  options.command = {"python3", source + "/tests/worker/twin_child.py"};
  options.env = {{"PYTHONPATH", source + "/python"}};
  options.channel = true;
  auto child = Child::start("first", options);
  REQUIRE(child.has_value());
  return std::move(*child);
}

Json counted(Child& child) {
  auto reply = child.call("count", Json::object(), {}, 30);
  REQUIRE(reply.has_value());
  return reply->result;
}
}  // namespace

TEST_CASE("a twin knows what its original knew, and is a child of this process") {
  const auto first = start();
  CHECK(counted(*first)["count"] == 1);
  auto made = first->twin(30);
  REQUIRE(made.has_value());
  Child& second = **made;
  const Json said = counted(second);
  CHECK(said["count"] == 2);
  CHECK(said["pid"] == second.pid());
  CHECK(second.pid() != first->pid());
  CHECK(said["parent"] == ::getpid());
  CHECK(said["group"] == second.pid());
  const Json again = counted(*first);
  CHECK(again["count"] == 2);
  CHECK(said["open"] == again["open"]);  // neither keeps ends of the other's
  CHECK(second.twin(30).has_value());
}

TEST_CASE("each of them ends alone, and with its own words") {
  const auto first = start();
  auto made = first->twin(30);
  REQUIRE(made.has_value());
  counted(*first);
  Child& second = **made;
  first->kill();
  CHECK(!first->call("count", Json::object(), {}, 30).has_value());
  CHECK(counted(second)["count"] == 1);
  const auto dead = second.call("die", Json::object(), {}, 30);
  REQUIRE(!dead.has_value());
  CHECK(dead.error().kind.name() == "crash");
  CHECK(dead.error().message.find("signal 11") != std::string::npos);
  REQUIRE(!dead.error().causes.empty());
  CHECK(dead.error().causes.back().find("counted 1") != std::string::npos);
}

TEST_CASE("who has several threads makes no twin, and goes on") {
  const auto first = start();
  REQUIRE(first->call("thread", Json::object(), {}, 30).has_value());
  const auto made = first->twin(30);
  REQUIRE(!made.has_value());
  CHECK(made.error().kind.name() == "unsupported");
  CHECK(counted(*first)["count"] == 1);
}

TEST_CASE("only children are adopted") {
  for (const pid_t pid : {0, 1, -1, static_cast<int>(::getpid())}) {
    auto ends = Subprocess::Ends::make();
    REQUIRE(ends.has_value());
    const auto adopted = Subprocess::adopt(pid, std::move(*ends));
    REQUIRE(!adopted.has_value());
    CHECK(adopted.error().kind.name() == "spawn_failed");
  }
}
