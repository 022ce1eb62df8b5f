// Requests as they go out, answers as they come in.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "fakes.h"
#include "llm/json_schema.h"
#include "llm/sse.h"

using namespace planish;
using namespace planish::llm;

namespace {

Json body_of(const ChatRequest& request, const ModelConfig& config, const Capabilities& capabilities) {
  return *parse_json(wire_of(config.wire).request(request, config, capabilities).body, "bad_text", "x");
}

ChatRequest rich_request() {
  ChatRequest out = sample_request();
  out.tools = {{"search", "Finds patterns.",
                R"({"type":"object","properties":{"query":{"type":"string"}},"required":["query"]})"}};
  out.messages.push_back(
      {Speaker::assistant, "I look.", {{"c1", "search", R"({"query":"softmax"})"}, {"c2", "search", "{}"}}, {}});
  out.messages.push_back({Speaker::tool, "three found", {}, "c1"});
  out.messages.push_back({Speaker::tool, "none", {}, "c2"});
  out.messages.push_back({Speaker::user, "Go on.", {}, {}});
  return out;
}

const std::string verdict_schema =
    R"({"type":"object","properties":{"issue":{"type":"string"},"gain":{"type":"number"}},"required":["issue","gain"],"additionalProperties":false})";

Answer answered(const std::string& body, WireKind wire = WireKind::openai, std::optional<OutputSchema> schema = {}) {
  World world([&](const HttpRequest&) { return HttpReply{200, {}, body}; }, sample_config(wire));
  ChatRequest request = sample_request();
  request.output = std::move(schema);
  return world.provider->complete(request, {});
}

}  // namespace

TEST_CASE("a chat completions request holds its parts in the order in which they can be cached") {
  const ModelConfig config = sample_config();
  const Json body = body_of(rich_request(), config, expected_capabilities(config));
  CHECK(body["messages"][0] ==
        Json{{"role", "system"}, {"content", "You write kernels.\n\nThe task.\n\nThe cell.\n\nThe parent."}});
  CHECK(body["messages"][2]["tool_calls"][0]["function"]["arguments"] == R"({"query":"softmax"})");
  CHECK(body["messages"][3] == Json{{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "three found"}});
  CHECK(body["max_tokens"] == 100);
  CHECK(body["stream_options"]["include_usage"] == true);
  CHECK(!body.contains("temperature"));
}

TEST_CASE("reasoning models get their own name for the limit, an effort and no temperature") {
  ModelConfig config = sample_config();
  config.reasoning = true;
  config.effort = "low";
  config.temperature = 0.7;
  const Json body = body_of(sample_request(), config, expected_capabilities(config));
  CHECK(body["max_completion_tokens"] == 100);
  CHECK(!body.contains("max_tokens"));
  CHECK(!body.contains("temperature"));
  CHECK(body["reasoning_effort"] == "low");
}

TEST_CASE("a Messages request marks what outlives a candidate, and joins what tools returned") {
  const ModelConfig config = sample_config(WireKind::anthropic);
  const auto http = anthropic_wire().request(rich_request(), config, expected_capabilities(config));
  CHECK(http.url == "http://127.0.0.1:9/v1/messages");
  const Json body = *parse_json(http.body, "bad_text", "x");
  REQUIRE(body["system"].size() == 4);
  for (int i = 0; i < 3; ++i) CHECK(body["system"][i]["cache_control"]["type"] == "ephemeral");
  CHECK(!body["system"][3].contains("cache_control"));
  REQUIRE(body["messages"].size() == 3);
  CHECK(body["messages"][1]["content"][1]["input"]["query"] == "softmax");
  CHECK(body["messages"][2]["content"].size() == 3);
  CHECK(body["messages"][2]["content"][0]["type"] == "tool_result");
  CHECK(body["max_tokens"] == 100);
}

TEST_CASE("structured output has four forms") {
  ChatRequest request = sample_request();
  request.output = OutputSchema{"verdict", verdict_schema};
  ModelConfig config = sample_config();
  Capabilities capabilities = expected_capabilities(config);
  CHECK(body_of(request, config, capabilities)["response_format"]["json_schema"]["strict"] == true);
  capabilities.structured = Structured::object;
  CHECK(body_of(request, config, capabilities)["response_format"]["type"] == "json_object");
  capabilities.structured = Structured::tool;
  CHECK(body_of(request, config, capabilities)["tool_choice"]["function"]["name"] == "verdict");
  capabilities.structured = Structured::prompt;
  CHECK(!body_of(request, config, capabilities).contains("response_format"));
  config.wire = WireKind::anthropic;
  capabilities.structured = Structured::schema;
  CHECK(body_of(request, config, capabilities)["output_config"]["format"]["type"] == "json_schema");
  capabilities.structured = Structured::tool;
  CHECK(body_of(request, config, capabilities)["tool_choice"]["name"] == "verdict");
}

TEST_CASE("streams are put together, with their tokens and their price") {
  const auto chat = answered(openai_stream);
  REQUIRE(chat.has_value());
  CHECK(chat->text == "ready");
  CHECK(chat->stop == Stop::finished);
  CHECK(chat->model == "model-1-x");
  CHECK(chat->usage.fresh == 10);
  CHECK(chat->usage.cached == 40);
  CHECK(chat->usage.output == 10);
  CHECK(chat->usage.reasoning == 4);
  CHECK(chat->nanodollars == 10 * 2000 + 40 * 200 + 10 * 8000);
  const auto messages = answered(anthropic_stream, WireKind::anthropic);
  REQUIRE(messages.has_value());
  CHECK(messages->text == "ready");
  REQUIRE(messages->calls.size() == 1);
  CHECK(messages->calls[0].arguments == R"({"word":"a"})");
  CHECK(messages->stop == Stop::tool_calls);
  CHECK(messages->usage.cache_writes == 20);
  CHECK(messages->usage.cached == 30);
  CHECK(messages->usage.output == 12);
  CHECK(messages->nanodollars == 5 * 2000 + 30 * 200 + 20 * 2500 + 12 * 8000);
}

TEST_CASE("a server that does not stream is understood as well") {
  const auto chat = answered(
      R"({"model":"m","choices":[{"message":{"content":"hi","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}})");
  REQUIRE(chat.has_value());
  CHECK(chat->calls.size() == 1);
  const auto messages = answered(
      R"({"type":"message","model":"m","content":[{"type":"redacted_thinking","data":"x"},{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}})",
      WireKind::anthropic);
  REQUIRE(messages.has_value());
  CHECK(messages->text == "hi");
}

TEST_CASE("the pieces of tool calls belong to their index") {
  const auto chat = answered(
      "data: "
      "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":"
      "\"{\\\"x\\\":\"}}]}}]}\n\n"
      "data: "
      "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":"
      "\"{}\"}}]}}]}\n\n"
      "data: "
      "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}}]},\"finish_reason\":"
      "\"tool_calls\"}]}\n\n");
  REQUIRE(chat.has_value());
  REQUIRE(chat->calls.size() == 2);
  CHECK(chat->calls[0].arguments == R"({"x":1})");
  CHECK(chat->calls[1].name == "g");
  CHECK(!chat->usage.known);
}

TEST_CASE("what makes no sense is said to make none") {
  const std::vector<std::pair<std::string, WireKind>> bad = {
      {"{\"choices\": [", WireKind::openai},
      {"", WireKind::openai},
      {"<!doctype html><html>Sign in</html>", WireKind::openai},
      {"[1, 2]", WireKind::openai},
      {R"({"ok": true})", WireKind::openai},
      {"data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n", WireKind::openai},
      {"data: {\"choices\":[{\"delta\":\n\n", WireKind::openai},
      {"data: [DONE]\n\n", WireKind::openai},
      {anthropic_stream.substr(0, anthropic_stream.find("event: message_delta")), WireKind::anthropic},
      {"<html></html>", WireKind::anthropic},
      {R"({"content": 3})", WireKind::anthropic},
  };
  for (const auto& [body, wire] : bad) {
    CAPTURE(body);
    const auto answer = answered(body, wire);
    REQUIRE(!answer.has_value());
    CHECK(answer.error().error.kind.name() == "model_bad_reply");
    CHECK(answer.error().billed);
    CHECK(answer.error().elsewhere);
  }
}

TEST_CASE("errors in the middle of a stream have their own kinds") {
  const auto overloaded = answered(
      "event: error\ndata: "
      "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
      WireKind::anthropic);
  REQUIRE(!overloaded.has_value());
  CHECK(overloaded.error().error.kind.name() == "model_overloaded");
  CHECK(overloaded.error().retry);
  const auto limited = answered("data: {\"error\":{\"code\":429,\"message\":\"slow down\"}}\n\n");
  REQUIRE(!limited.has_value());
  CHECK(limited.error().error.kind.name() == "model_rate_limited");
}

TEST_CASE("answers in a schema are checked here, whatever the server promised") {
  const OutputSchema schema{"verdict", verdict_schema};
  const auto with = [&](const std::string& text) {
    return answered(dump_json(Json{{"choices", {{{"message", {{"content", text}}}, {"finish_reason", "stop"}}}}}),
                    WireKind::openai, schema);
  };
  CHECK(with(R"({"issue": "spills", "gain": 1.5})")->json == R"({"gain":1.5,"issue":"spills"})");
  CHECK(with("Sure:\n```json\n{\"issue\": \"spills\", \"gain\": 2}\n```\n")->json_problem.empty());
  const auto missing = with(R"({"issue": "spills"})");
  CHECK(missing->json.empty());
  CHECK(missing->json_problem.find("gain") != std::string::npos);
  CHECK(with(R"({"issue": "a", "gain": 1, "more": 2})")->json_problem.find("more") != std::string::npos);
  CHECK(with("no code at all")->json_problem.find("not JSON") != std::string::npos);
  CHECK(read_schema_answer("[1, 2, 3]", R"({"type":"array","maxItems":2})").json.empty());
  CHECK(read_schema_answer(R"("c")", R"({"enum":["a","b"]})").json.empty());
  CHECK(read_schema_answer("3", R"({"anyOf":[{"type":"string"},{"type":"integer","minimum":3}]})").json == "3");
}

TEST_CASE("requests that cannot be right are refused before anything is sent") {
  World world([](const HttpRequest&) { return HttpReply{200, {}, openai_stream}; });
  ChatRequest request = sample_request();
  std::swap(request.system[0], request.system[2]);
  CHECK(world.provider->complete(request, {}).error().error.kind.name() == "bad_chat_request");
  request = sample_request();
  request.messages.clear();
  CHECK(world.provider->complete(request, {}).error().error.kind.name() == "bad_chat_request");
  request = sample_request();
  request.output = OutputSchema{"x", "no json"};
  CHECK(world.provider->complete(request, {}).error().error.kind.name() == "bad_chat_request");
  CHECK(world.transport.sent.empty());
}

TEST_CASE("events survive any cut and any kind of line end") {
  EventReader reader;
  std::vector<ServerEvent> events;
  for (const char c : std::string(": hi\r\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r\ndata:3\r\rid: 7\n\ndata: 4\n\n")) {
    for (auto& event : reader.feed(std::string_view(&c, 1))) events.push_back(event);
  }
  REQUIRE(events.size() == 3);
  CHECK(events[0].event == "a");
  CHECK(events[0].data == "1\n2");
  CHECK(events[1].data == "3");
  CHECK(events[2].data == "4");
}

TEST_CASE("a 1 MB answer arrives whole") {
  const std::string kernel(1U << 20U, 'k');
  const auto chat = answered("data: {\"choices\":[{\"delta\":{\"content\":\"" + kernel +
                             "\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
  REQUIRE(chat.has_value());
  CHECK(chat->text.size() == kernel.size());
}

TEST_CASE("samples of requests for their referee") {
  // tests/python/llm/test_referee.py gives the folder and validates what is written with the published types.
  const char* folder = std::getenv("PLANISH_LLM_SAMPLES");
  int written = 0;
  for (const WireKind wire : {WireKind::openai, WireKind::anthropic}) {
    for (const bool reasoning : {false, true}) {
      for (const Structured form : {Structured::schema, Structured::object, Structured::tool, Structured::prompt}) {
        for (const ToolUse use : {ToolUse::automatic, ToolUse::none, ToolUse::required}) {
          ModelConfig config = sample_config(wire);
          config.reasoning = reasoning;
          if (reasoning) config.effort = "low";
          ChatRequest request = rich_request();
          request.tool_use = use;
          Capabilities capabilities = expected_capabilities(config);
          capabilities.structured = form;
          capabilities.stream = use != ToolUse::none;
          if (use == ToolUse::automatic) request.output = OutputSchema{"verdict", verdict_schema};
          const std::string body = wire_of(wire).request(request, config, capabilities).body;
          CHECK(parse_json(body, "bad_text", "x").has_value());
          ++written;
          if (folder != nullptr)
            REQUIRE(
                write_file(std::filesystem::path(folder) /
                               fmt::format("{}-{}.json", wire == WireKind::openai ? "openai" : "anthropic", written),
                           body));
        }
      }
    }
  }
}
