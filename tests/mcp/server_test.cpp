#include "mcp/server.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "mcp/lines.h"

using namespace planish;
using mcp::Argument;

namespace {

/// Longer than anything here may take; a test that waits for it has failed.
constexpr double patience = 60;

struct Pipe {
  Pipe() { REQUIRE(::pipe(ends.data()) == 0); }
  ~Pipe() {
    close(0);
    close(1);
  }
  void close(std::size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

std::vector<mcp::Tool> tools_with(std::atomic<int>& waiting) {
  mcp::Tool add{.name = "add",
                .title = "Add",
                .description = "Adds",
                .arguments = {{"a", Argument::Type::integer, "first", true, {}, 0, 9},
                              {"b", Argument::Type::number, "second"},
                              {"kind", Argument::Type::text, "how", false, {"plain", "odd"}}},
                .read_only = true,
                .run = [](const Json& given, const mcp::Call&) -> Result<mcp::Answer> {
                  return mcp::Answer{{{"sum", given["a"].get<int>() + given.value("b", 0.0)}}, "added"};
                }};
  mcp::Tool fails{
      .name = "fails", .title = "", .description = "", .arguments = {}, .run = [](const Json&, const mcp::Call&) {
        return Result<mcp::Answer>(std::unexpected(Error{"busy", "it did not work", {"why"}, "try again"}));
      }};
  mcp::Tool waits{.name = "waits",
                  .title = "",
                  .description = "",
                  .arguments = {},
                  .run = [&waiting](const Json&, const mcp::Call& call) -> Result<mcp::Answer> {
                    ++waiting;
                    call.progress("at it");
                    const TimePoint end = deadline_in(patience);
                    while (!call.cancel.cancelled() && seconds_until(end) > 0)
                      std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    --waiting;
                    return fail("cancelled", "");
                  }};
  return {add, fails, waits};
}

mcp::Resources resources() {
  return {[]() -> Result<std::vector<mcp::Resource>> {
            return std::vector<mcp::Resource>{{"x://1", "one", "the first", "text/plain"}};
          },
          {{"x://{n}", "n", "the nth", "text/plain"}},
          [](const std::string& uri) -> Result<std::optional<mcp::Contents>> {
            if (uri == "x://1") return mcp::Contents{"text/plain", "first"};
            if (uri == "x://broken") return fail("unreadable", "it cannot be read");
            return std::nullopt;
          }};
}

/// A server in a thread, and its client.
class Session {
 public:
  explicit Session(bool initialize = true, const char* version = "2025-11-25", std::size_t most_calls = 16)
      : server_({.name = "test",
                 .title = "Test",
                 .version = "1",
                 .instructions = "do",
                 .most_calls = most_calls,
                 .line_bytes = 4096},
                tools_with(waiting), resources()),
        reader_(answers_.ends[0], 1U << 20U),
        thread_([this] {
          server_.serve(asks_.ends[0], answers_.ends[1], stop);
          ended = true;
        }) {
    if (!initialize) return;
    const Json hello = ask({{"jsonrpc", "2.0"},
                            {"id", 0},
                            {"method", "initialize"},
                            {"params", {{"protocolVersion", version}, {"capabilities", Json::object()}}}});
    REQUIRE(hello["result"]["protocolVersion"] == version);
    send(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  }
  ~Session() {
    asks_.close(1);
    thread_.join();
  }
  void send(const std::string& line) {
    const std::string text = line + "\n";
    REQUIRE(::write(asks_.ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void hang_up() { asks_.close(1); }
  void stop_reading() { answers_.close(0); }
  Json receive() {
    const auto line = reader_.next(stop);
    REQUIRE(line);
    return Json::parse(line->text);
  }
  Json ask(const Json& message) {
    send(message.dump());
    return receive();
  }
  Json ask(int id, const char* method, Json params = Json::object()) {
    return ask({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}});
  }
  Json call(int id, const char* tool, Json arguments = Json::object()) {
    return ask(id, "tools/call", {{"name", tool}, {"arguments", std::move(arguments)}});
  }
  template <typename Condition>
  static bool comes_true(Condition condition) {
    const TimePoint end = deadline_in(patience);
    while (!condition() && seconds_until(end) > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
  }

  std::atomic<int> waiting{0};
  std::atomic<bool> ended{false};
  CancelToken stop;

 private:
  Pipe asks_, answers_;
  mcp::Server server_;
  mcp::LineReader reader_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("versions are negotiated") {
  for (const char* known : {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"})
    CHECK(mcp::negotiate(known) == known);
  CHECK(mcp::negotiate("2031-01-01") == "2025-11-25");
  CHECK(mcp::negotiate("") == "2025-11-25");
}

TEST_CASE("initialize comes first, once") {
  Session session(false);
  CHECK(session.ask(1, "ping")["result"] == Json::object());
  CHECK(session.ask(2, "tools/list")["error"]["code"] == -32600);
  CHECK(session.call(3, "add", {{"a", 1}})["error"]["code"] == -32600);
  CHECK(session.ask(4, "initialize", {{"protocolVersion", 7}})["error"]["code"] == -32602);
  const Json hello = session.ask(5, "initialize", {{"protocolVersion", "1999-01-01"}});
  CHECK(hello["result"]["protocolVersion"] == "2025-11-25");
  CHECK(hello["result"]["serverInfo"]["name"] == "test");
  CHECK(hello["result"]["instructions"] == "do");
  CHECK(hello["result"]["capabilities"].contains("tools"));
  CHECK(session.ask(6, "initialize", {{"protocolVersion", "2025-06-18"}})["error"]["code"] == -32600);
}

TEST_CASE("tools are listed with schemas, and called") {
  Session session;
  const Json tools = session.ask(1, "tools/list")["result"]["tools"];
  REQUIRE(tools.size() == 3);
  CHECK(tools[0]["inputSchema"]["properties"]["a"]["type"] == "integer");
  CHECK(tools[0]["inputSchema"]["properties"]["a"]["maximum"] == 9);
  CHECK(tools[0]["inputSchema"]["properties"]["kind"]["enum"] == Json({"plain", "odd"}));
  CHECK(tools[0]["inputSchema"]["required"] == Json({"a"}));
  CHECK(tools[0]["annotations"]["readOnlyHint"] == true);
  CHECK(tools[1]["inputSchema"]["additionalProperties"] == false);
  CHECK(session.ask(2, "tools/list", {{"cursor", "x"}})["error"]["code"] == -32602);

  const Json done = session.call(3, "add", {{"a", 1}, {"b", 2.5}})["result"];
  CHECK(done["isError"] == false);
  CHECK(done["structuredContent"]["sum"] == 3.5);
  CHECK(done["content"][0]["text"] == "added");
  CHECK(Json::parse(done["content"][1]["text"].get<std::string>()) == done["structuredContent"]);
}

TEST_CASE("what is wrong with an argument is a tool's error, what is wrong with a request is the protocol's") {
  Session session;
  const std::vector<std::pair<Json, std::string>> wrong{
      {Json::object(), "a is missing"},
      {{{"a", "1"}}, "a must be an integer"},
      {{{"a", 1.5}}, "a must be an integer"},
      {{{"a", 12}}, "a must be from 0 to 9"},
      {{{"a", 1}, {"kind", "even"}}, "one of plain, odd"},
      {{{"a", 1}, {"kint", "odd"}}, "did you mean 'kind'"},
  };
  int id = 0;
  for (const auto& [arguments, said] : wrong) {
    const Json answer = session.call(++id, "add", arguments);
    CHECK(answer["result"]["isError"] == true);
    CHECK(answer["result"]["structuredContent"]["error"]["kind"] == "bad_argument");
    CHECK(answer["result"]["content"][0]["text"].get<std::string>().find(said) != std::string::npos);
  }
  const Json failed = session.call(20, "fails")["result"];
  CHECK(failed["isError"] == true);
  CHECK(failed["content"][0]["text"] == "error: it did not work\ncaused by: why\nhint: try again\n");
  CHECK(session.call(21, "none")["error"]["code"] == -32602);
  CHECK(session.ask(22, "tools/call")["error"]["code"] == -32602);
  CHECK(session.ask(23, "tools/call", {{"name", "add"}, {"arguments", 3}})["error"]["code"] == -32602);
  CHECK(session.ask(24, "no/such")["error"]["code"] == -32601);
}

TEST_CASE("what is no message is refused, and the session goes on") {
  Session session;
  const std::vector<std::pair<std::string, int>> bad{
      {"{\"jsonrpc\": ", -32700},
      {"\xff\xfe", -32700},
      {"7", -32600},
      {"{\"id\": 1, \"method\": \"ping\"}", -32600},
      {R"({"jsonrpc":"2.0","id":1})", -32600},
      {R"({"jsonrpc":"2.0","id":1,"method":7})", -32600},
      {R"({"jsonrpc":"2.0","id":null,"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":[1],"method":"ping"})", -32600},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[1]})", -32602},
      {R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])", -32600},
      {std::string(5000, 'x'), -32700},
  };
  for (const auto& [line, code] : bad) {
    session.send(line);
    CHECK(session.receive()["error"]["code"] == code);
  }
  // Neither of these is answered.
  session.send("");
  session.send(R"({"jsonrpc":"2.0","id":1,"result":{}})");
  session.send(R"({"jsonrpc":"2.0","method":"notifications/unknown"})");
  session.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}})");
  session.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled"})");
  CHECK(session.ask({{"jsonrpc", "2.0"}, {"id", "a text"}, {"method", "ping"}})["id"] == "a text");
}

TEST_CASE("the one version with batches gets one answer to each") {
  Session session(true, "2025-03-26");
  session.send(R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},7,)"
               R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}])");
  const Json answers = session.receive();
  REQUIRE(answers.is_array());
  std::set<std::string> ids;
  for (const Json& answer : answers) ids.insert(answer["id"].dump());
  CHECK(ids == std::set<std::string>{"1", "2", "null"});
  session.send("[]");
  CHECK(session.receive()["error"]["code"] == -32600);
}

TEST_CASE("progress is told where it is asked for, and a cancelled call is never answered") {
  Session session;
  session.send(
      R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"waits","_meta":{"progressToken":"t"}}})");
  const Json told = session.receive();
  CHECK(told["method"] == "notifications/progress");
  CHECK(told["params"]["progressToken"] == "t");
  CHECK(told["params"]["progress"] == 1);
  CHECK(told["params"]["message"] == "at it");
  // Others are answered meanwhile; of the same id there is only one.
  CHECK(session.call(8, "add", {{"a", 2}})["result"]["structuredContent"]["sum"] == 2);
  CHECK(session.call(7, "add", {{"a", 2}})["error"]["code"] == -32600);
  session.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}})");
  CHECK(Session::comes_true([&] { return session.waiting == 0; }));
  CHECK(session.ask(9, "ping")["id"] == 9);
}

TEST_CASE("there are so many calls at once") {
  Session session(true, "2025-11-25", 2);
  for (const int id : {1, 2})
    session.send(
        Json{{"jsonrpc", "2.0"}, {"id", id}, {"method", "tools/call"}, {"params", {{"name", "waits"}}}}.dump());
  CHECK(Session::comes_true([&] { return session.waiting == 2; }));
  CHECK(session.call(3, "add", {{"a", 1}})["error"]["code"] == -32603);
}

TEST_CASE("a client that hangs up, one that reads no more, and a stop end what runs") {
  std::signal(SIGPIPE, SIG_IGN);  // as the program does
  for (const int how : {0, 1, 2}) {
    Session session;
    session.send(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"waits"}})");
    CHECK(Session::comes_true([&] { return session.waiting == 1; }));
    if (how == 0) session.hang_up();
    if (how == 1) session.stop.cancel();
    if (how == 2) {
      session.stop_reading();
      session.send(R"({"jsonrpc":"2.0","id":2,"method":"ping"})");
      session.hang_up();
    }
    CHECK(Session::comes_true([&] { return session.ended.load(); }));
    CHECK(session.waiting == 0);
  }
}

TEST_CASE("resources are listed and read") {
  Session session;
  CHECK(session.ask(1, "resources/list")["result"]["resources"][0]["uri"] == "x://1");
  CHECK(session.ask(2, "resources/templates/list")["result"]["resourceTemplates"][0]["uriTemplate"] == "x://{n}");
  CHECK(session.ask(3, "resources/read", {{"uri", "x://1"}})["result"]["contents"][0]["text"] == "first");
  const Json none = session.ask(4, "resources/read", {{"uri", "x://2"}});
  CHECK(none["error"]["code"] == -32002);
  CHECK(none["error"]["data"]["uri"] == "x://2");
  CHECK(session.ask(5, "resources/read", {{"uri", "x://broken"}})["error"]["code"] == -32603);
  CHECK(session.ask(6, "resources/read")["error"]["code"] == -32602);
  CHECK(session.ask(7, "resources/list", {{"cursor", "x"}})["error"]["code"] == -32602);
}
