#include <chrono>

#include "support.h"

using namespace runtime_test;

namespace {

constexpr std::int64_t n = 1024;

Json affine_program() {
  return program({buffer("input", {n}), buffer("output", {n})},
                 {launch(0, {{{"buffer", 0}}, {{"buffer", 1}}, {{"i64", n}}})});
}

/// A runner with the affine program's buffers bound and `body` as its kernel.
struct Bound {
  Scratch scratch;
  Shared x{n * 4, true}, y{n * 4};
  Runner runner;
  Json handle;
  explicit Bound(const std::string& body, std::vector<std::string> options = {}, const std::string& flags = "")
      : runner(std::move(options)) {
    for (std::int64_t i = 0; i < n; ++i) x.data()[i] = static_cast<float>(i);
    const Json loaded = runner.call(
        "load", {{"program", affine_program()}, {"binaries", {compile(scratch, body, flags)}}, {"blobs", ""}});
    REQUIRE_MESSAGE(loaded.contains("result"), loaded.dump());
    handle = loaded["result"]["handle"];
    const Json bound = runner.call("bind",
                                   {{"handle", handle},
                                    {"data", "d"},
                                    {"buffers", {description(x, 0, n * 4, false), description(y, 1, n * 4, true)}}},
                                   {prt_buffer_fd(x.buffer), prt_buffer_fd(y.buffer)});
    REQUIRE_MESSAGE(bound.contains("result"), bound.dump());
  }
  Json run() { return runner.call("run", {{"handle", handle}, {"data", "d"}}); }
};

void faults(const std::string& body, int signal, const std::string& where) {
  Bound bound(body);
  const Json event = bound.run();
  INFO(event.dump());
  REQUIRE(event.is_object());
  CHECK(event["event"] == "fault");
  CHECK(event["signal"] == signal);
  CHECK(event["where"] == where);
  CHECK(bound.runner.wait() == 128 + signal);
}

}  // namespace

TEST_CASE("load, bind, run, time, unbind, unload") {
  Bound bound(affine);
  const Json ran = bound.run();
  REQUIRE_MESSAGE(ran.contains("result"), ran.dump());
  CHECK(ran["result"]["ms"].get<double>() >= 0);
  for (std::int64_t i = 0; i < n; ++i) REQUIRE(bound.y.data()[i] == static_cast<float>(2 * i + 1));
  CHECK(bound.y.intact());
  const Json timed = bound.runner.call("time", {{"handle", bound.handle},
                                                {"data", {"d"}},
                                                {"min_runs", 7},
                                                {"max_runs", 9},
                                                {"max_seconds", 30},
                                                {"interval", 0.0},
                                                {"flush_bytes", 0}});
  REQUIRE_MESSAGE(timed.contains("result"), timed.dump());
  const Json& r = timed["result"];
  CHECK(r["samples_ms"].size() == 9);
  CHECK(r["lo_ms"].get<double>() <= r["median_ms"].get<double>());
  CHECK(r["hi_ms"].get<double>() >= r["median_ms"].get<double>());
  CHECK(r["host_us"].get<double>() > 0);
  CHECK(bound.runner.call("unbind", {{"data", "d"}}).contains("result"));
  CHECK(bound.run()["error"]["kind"] == "bad_argument");
  CHECK(bound.runner.call("unload", {{"handle", bound.handle}}).contains("result"));
  CHECK(bound.run()["error"]["kind"] == "bad_argument");
}

TEST_CASE("hello says what it is and what holds it") {
  Runner runner({"--device", "cpu", "--max-rss", "4000000000", "--no-network"});
  const Json hello = runner.call("hello", {{"device", "cpu"}})["result"];
  CHECK(hello["kind"] == "native");
  CHECK(hello["device"]["kind"] == "cpu");
  CHECK(hello["device"]["sms"].get<int>() > 0);
  CHECK(hello["sandbox"]["max_rss"] == 4000000000);
  CHECK(hello["sandbox"]["parent_death_signal"] == true);
  CHECK(hello["sandbox"]["no_network"].is_boolean());
  if (hello["sandbox"]["no_network"] == true) {
    const auto space = [](const std::string& pid) {
      return std::filesystem::read_symlink("/proc/" + pid + "/ns/net").string();
    };
    CHECK(space(std::to_string(runner.pid())) != space("self"));
  }
  CHECK(runner.call("hello", {{"device", "cuda"}})["error"]["kind"] == "bad_argument");
}

TEST_CASE("bad requests are answered and harm nothing") {
  Bound bound(affine);
  Runner& runner = bound.runner;
  runner.send("this is not JSON");
  CHECK(runner.receive()["error"]["kind"] == "bad_argument");
  runner.send("[1]");
  CHECK(runner.receive()["error"]["kind"] == "bad_argument");
  const auto refused = [&](const char* method, Json params, const std::vector<int>& fds = {}) {
    const Json answer = runner.call(method, std::move(params), fds);
    INFO(answer.dump());
    REQUIRE(answer.contains("error"));
    CHECK(answer["error"]["message"].get<std::string>().size() > 5);
    return answer["error"]["kind"].get<std::string>();
  };
  CHECK(refused("frobnicate", Json::object()) == "bad_argument");
  CHECK(refused("load", Json::object()) == "bad_argument");
  CHECK(refused("load", {{"program", {{"schema", "x"}}}, {"binaries", Json::array()}}) == "bad_program");
  CHECK(refused("load", {{"program", affine_program()}, {"binaries", {"/none.so"}}}) == "load_failed");
  CHECK(refused("run", {{"handle", 99}, {"data", "d"}}) == "bad_argument");
  CHECK(refused("run", {{"handle", bound.handle}, {"data", "e"}}) == "bad_argument");
  CHECK(refused("run", {{"handle", "1"}, {"data", "d"}}) == "bad_argument");
  CHECK(refused("time", {{"handle", bound.handle}, {"data", Json::array()}}) == "bad_argument");
  CHECK(refused("time", {{"handle", bound.handle}, {"data", {"d"}}, {"min_runs", 9}, {"max_runs", 3}}) ==
        "bad_argument");
  CHECK(refused("unbind", {{"data", "e"}}) == "bad_argument");
  const Json x = description(bound.x, 0, n * 4, false), y = description(bound.y, 1, n * 4, true);
  const int fx = prt_buffer_fd(bound.x.buffer), fy = prt_buffer_fd(bound.y.buffer);
  const auto bind = [&](const char* name, Json buffers) {
    return Json{{"handle", bound.handle}, {"data", name}, {"buffers", std::move(buffers)}};
  };
  CHECK(refused("bind", bind("d", {x, y}), {fx, fy}) == "bad_argument");            // bound already
  CHECK(refused("bind", bind("e", {x, y}), {fx}) == "bad_argument");                // a descriptor short
  CHECK(refused("bind", bind("e", Json::array({x})), {fx, fy}) == "bad_argument");  // an output short
  CHECK(refused("bind", bind("e", {x, x}), {fx, fx}) == "bad_argument");
  Json writable = x, far = y;
  writable["writable"] = true;
  far["offset"] = 1 << 30;
  CHECK(refused("bind", bind("e", {writable, y}), {fx, fy}) == "bad_argument");  // sealed
  CHECK(refused("bind", bind("e", {x, far}), {fx, fy}) == "bad_argument");
  CHECK(runner.call("bind", bind("e", {x, y}), {fx, fy}).contains("result"));
  CHECK(bound.run().contains("result"));
}

TEST_CASE("faults are reported by place, as the last thing") {
  faults("*(volatile int*)8 = 1;", SIGSEGV, "unknown");
  faults("((volatile float*)args[0])[5] = 1;", SIGSEGV, "input:0");
  faults("((volatile float*)args[1])[1024] = 1;", SIGSEGV, "guard:output:1");
  faults("((volatile float*)args[1])[-1] = 1;", SIGSEGV, "guard:output:1");
  faults("volatile float f = ((volatile float*)args[0])[2000];", SIGSEGV, "guard:input:0");
  faults("abort();", SIGABRT, "unknown");
  faults("raise(SIGFPE);", SIGFPE, "unknown");
  faults("__builtin_trap();", SIGILL, "unknown");
}

TEST_CASE("a fault on an OpenMP thread is reported too") {
  Bound bound("\n#pragma omp parallel num_threads(2)\n((volatile float*)args[0])[5] = 1;", {}, "-fopenmp");
  const Json event = bound.run();
  REQUIRE(event.is_object());
  CHECK(event["where"] == "input:0");
  CHECK(bound.runner.wait() == 128 + SIGSEGV);
}

TEST_CASE("a kernel that writes past its output inside the mapping leaves its mark") {
  const Scratch scratch;
  const Shared y(1000);
  Runner runner;
  const Json document = program({buffer("output", {250})}, {launch(0, {{{"buffer", 0}}})});
  const Json loaded = runner.call(
      "load", {{"program", document}, {"binaries", {compile(scratch, "((volatile float*)args[0])[250] = 0;")}}});
  REQUIRE(loaded.contains("result"));
  CHECK(runner
            .call("bind", {{"handle", 1}, {"data", "d"}, {"buffers", Json::array({description(y, 0, 1000, true)})}},
                  {prt_buffer_fd(y.buffer)})
            .contains("result"));
  CHECK(runner.call("run", {{"handle", 1}, {"data", "d"}}).contains("result"));
  CHECK_FALSE(y.intact());
}

TEST_CASE("a hang answers nothing and can be killed; a kernel that exits is gone") {
  Bound hang("for (volatile int i = 0; ; ++i) {}");
  hang.runner.request("run", {{"handle", hang.handle}, {"data", "d"}});
  CHECK(hang.runner.receive(300).is_null());
  kill(hang.runner.pid(), SIGKILL);
  CHECK(hang.runner.wait() == 1000 + SIGKILL);
  Bound leave("_exit(7);");
  CHECK(leave.run().is_null());
  CHECK(leave.runner.wait() == 7);
}

TEST_CASE("eating memory ends in a fault named memory; bound buffers do not count") {
  const std::string eat =
      "for (;;) { auto p = (volatile char*)malloc(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; "
      "usleep(100); }";
  Bound bound(eat, {"--max-rss", std::to_string(200 << 20)});
  const Json event = bound.run();
  REQUIRE(event.is_object());
  CHECK(event["where"] == "memory");
  CHECK(bound.runner.wait() == 128 + SIGKILL);

  const Scratch scratch;
  const Shared big(std::uint64_t{200} << 20);
  Runner runner({"--max-rss", std::to_string(100 << 20)});
  const Json document = program({buffer("output", {50 << 20})}, {launch(0, {{{"buffer", 0}}})});
  CHECK(runner.call("load", {{"program", document}, {"binaries", {compile(scratch, "usleep(100000);")}}})
            .contains("result"));
  const Json big_description = description(big, 0, std::uint64_t{200} << 20, true);
  CHECK(runner
            .call("bind", {{"handle", 1}, {"data", "d"}, {"buffers", Json::array({big_description})}},
                  {prt_buffer_fd(big.buffer)})
            .contains("result"));
  CHECK(runner.call("run", {{"handle", 1}, {"data", "d"}}).contains("result"));
}

TEST_CASE("the end of the socket is the end of the runner") {
  Runner idle;
  CHECK(idle.call("hello", Json::object()).contains("result"));
  idle.hang_up();
  CHECK(idle.wait() == 0);
  Runner usage({"--frobnicate"});
  CHECK(usage.wait() == 2);
  Runner device({"--device", "tpu"});
  CHECK(device.wait() == 2);
}
