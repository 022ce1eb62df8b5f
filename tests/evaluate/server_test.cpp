#include "evaluate/server.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "base/work_scope.h"
#include "evaluate/client.h"

using namespace planish;

namespace {

/// Says what it does, and how long it may take.
class Talking : public EvaluatorApi {
 public:
  Result<OpenReply> open(const OpenRequest& request) override {
    const std::string text = "waiting: for " + request.task;
    report_work({.text = text, .number = 2, .all = 3});
    const double left = work_seconds_left();
    if (std::isinf(left)) return fail("not_running", "any time");
    return fail("out_of_time", left <= 5 ? "not more than 5 s" : "too long");
  }
  Result<RegionReply> region(const RegionRequest&) override { return fail("internal", ""); }
  Result<Evaluation> evaluate(const EvaluateRequest&) override { return fail("internal", ""); }
  Result<VerifyReply> verify(const VerifyRequest&) override { return fail("internal", ""); }
  Result<ClaimReply> claim(const ClaimRequest&) override { return fail("internal", ""); }
  Status close(const std::string&) override { return {}; }
};

std::unique_ptr<EvaluatorClient> joined(const std::filesystem::path& socket) {
  const TimePoint give_up = deadline_in(20);
  while (true) {
    auto client = EvaluatorClient::connect(socket);
    if (client) return std::move(*client);
    if (seconds_until(give_up) <= 0) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

TEST_CASE("a request carries what time its caller has left, and the caller hears what is waited for") {
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  Talking api;
  ServeOptions options;
  options.socket = folder->path() / "socket";
  Status served;
  std::thread server([&] { served = serve_evaluator(api, options); });
  {
    auto client = joined(options.socket);
    REQUIRE(client);
    std::mutex mutex;
    std::vector<std::string> heard;
    client->listen([&](const WorkReport& report) {
      const std::scoped_lock lock(mutex);
      heard.emplace_back(fmt::format("{}, {} of {}", report.text, report.number, report.all));
    });
    OpenRequest ask;
    ask.task = "a.py";
    CHECK(client->open(ask).error().kind.name() == "not_running");
    {
      const WorkScope scope(5);
      CHECK(client->open(ask).error().message == "not more than 5 s");
    }
    {
      const WorkScope scope(1e-9);
      CHECK(client->open(ask).error().kind.name() == "out_of_time");
    }
    client->listen({});
    const std::scoped_lock lock(mutex);
    CHECK(heard == std::vector<std::string>{"waiting: for a.py, 2 of 3", "waiting: for a.py, 2 of 3"});
  }
  server.join();
  CHECK(served.has_value());  // it ended with its last client
}

TEST_CASE("an evaluator that somebody has stopped is given up, whatever the limit of the request") {
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  const auto socket = folder->path() / "socket";
  SpawnOptions options;
  options.command = {"python3", "-c",
                     "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); "
                     "c = s.accept(); time.sleep(60)",
                     socket.string()};
  auto silent = Subprocess::spawn(options);
  REQUIRE(silent.has_value());
  auto client = joined(socket);
  REQUIRE(client);
  client->set_stop_limit(0.2);
  OpenRequest ask;
  ask.task = "a.py";
  std::thread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::kill(silent->pid(), SIGSTOP);
  });
  const auto opened = client->open(ask);
  stop.join();
  REQUIRE_FALSE(opened.has_value());
  CHECK(opened.error().kind.name() == "killed");
  CHECK(opened.error().message.find("was stopped by a signal") != std::string::npos);
  CHECK(opened.error().message.find("`open`") != std::string::npos);
  ::kill(silent->pid(), SIGKILL);
}

TEST_CASE("one that stays outlives its clients, until it is told to stop or nobody came for a while") {
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  Talking api;
  ServeOptions options;
  options.socket = folder->path() / "socket";
  options.first_client_seconds = options.idle_seconds = 1000;
  std::thread server([&] { CHECK(serve_evaluator(api, options).has_value()); });
  REQUIRE(joined(options.socket));
  auto again = joined(options.socket);
  REQUIRE(again);
  auto channel = Channel::connect(options.socket);
  REQUIRE(channel.has_value());
  REQUIRE(channel->send(R"({"id":1,"method":"stop"})", {}, deadline_in(10)).has_value());
  CHECK(channel->receive(deadline_in(10)).has_value());
  channel->close();
  OpenRequest ask;
  CHECK(again->open(ask).error().kind.name() == "not_running");  // who uses it goes on
  again.reset();
  server.join();

  options.first_client_seconds = options.idle_seconds = 0.05;
  std::thread idle([&] { CHECK(serve_evaluator(api, options).has_value()); });
  idle.join();
}
