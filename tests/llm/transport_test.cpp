// libcurl against sockets that behave badly.
#include "llm/transport.h"

#include <doctest/doctest.h>

#include <chrono>

#include "fakes.h"
#include "llm/probe.h"
#include "loopback.h"

using namespace planish;
using namespace planish::llm;

namespace {

/// Short where a test waits for it, long where it must not come into play.
HttpLimits limits(double seconds = 600, double first_byte = 600, double stall = 600) {
  return {seconds, first_byte, stall, 1U << 20U};
}

Result<HttpReply> post(Transport& transport, const std::string& url, HttpLimits bounds,
                       const CancelToken* cancel = nullptr) {
  return transport.send({"POST", url + "/x", {{"content-type", "application/json"}}, "{\"a\":1}"}, bounds, cancel, {});
}

}  // namespace

TEST_CASE("requests arrive as they are, replies with status, headers and body") {
  Loopback server([](const std::string&) { return Loopback::reply(429, "{}", "Retry-After:  7 \r\nX-A: b\r\n"); });
  const auto transport = make_curl_transport();
  const auto reply = post(*transport, server.url(), limits());
  REQUIRE(reply);
  CHECK(reply->status == 429);
  CHECK(reply->header("retry-after") == "7");
  CHECK(reply->body == "{}");
  const std::string request = server.requests().at(0);
  CHECK(request.starts_with("POST /v1/x HTTP/1.1\r\n"));
  CHECK(request.ends_with("\r\n\r\n{\"a\":1}"));
}

TEST_CASE("each way of not answering has its name") {
  const auto transport = make_curl_transport();
  Loopback silent([](const std::string&) { return std::string(); });
  CHECK(post(*transport, silent.url(), limits(600, 0.05)).error().kind.name() == "model_stalled");
  CHECK(post(*transport, silent.url(), limits(0.05)).error().kind.name() == "model_timeout");
  Loopback stalls([](const std::string&) { return Loopback::stream("data: {}\n\n") + "[keep open]"; });
  const auto stalled = post(*transport, stalls.url(), limits(600, 600, 0.05));
  CHECK(stalled.error().kind.name() == "model_stalled");
  CHECK(stalled.error().message.find("middle") != std::string::npos);
  Loopback cuts([](const std::string&) { return std::string("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"); });
  CHECK(post(*transport, cuts.url(), limits()).error().kind.name() == "model_cut");
  Loopback garbage([](const std::string&) { return std::string("SSH-2.0-OpenSSH\r\n"); });
  CHECK(post(*transport, garbage.url(), limits()).error().kind.name() == "model_cut");
  Loopback floods([](const std::string&) { return Loopback::stream(std::string(2U << 20U, 'x')); });
  CHECK(post(*transport, floods.url(), limits()).error().kind.name() == "model_too_long");
  CHECK(post(*transport, "http://127.0.0.1:1/v1", limits()).error().kind.name() == "model_unreachable");
}

TEST_CASE("a cancelled call ends though its server never answers") {
  const auto transport = make_curl_transport();
  const CancelToken cancel;
  Loopback silent([&](const std::string&) {
    cancel.cancel();
    return std::string();
  });
  CHECK(post(*transport, silent.url(), limits(), &cancel).error().kind.name() == "cancelled");
}

TEST_CASE("redirects are not followed: the key would go with them") {
  Loopback other([](const std::string&) { return Loopback::reply(200, "{}"); });
  Loopback server([&](const std::string&) { return Loopback::reply(307, "", "location: " + other.url() + "\r\n"); });
  const auto transport = make_curl_transport();
  FakeClock clock;
  Ledger ledger({});
  ModelConfig config = sample_config();
  config.base_url = server.url();
  HttpProvider provider(config, Secret(secret_text), *transport, ledger, clock);
  const auto answer = provider.complete(sample_request(), {});
  CHECK(answer.error().error.kind.name() == "model_rejected");
  CHECK(other.requests().empty());
}

TEST_CASE("32 seats ask at once, and a stream ends with its last event though the connection stays") {
  Loopback server([](const std::string&) { return Loopback::stream(openai_stream) + "[keep open]"; });
  const auto transport = make_curl_transport();
  FakeClock clock;
  Ledger ledger({});
  ModelConfig config = sample_config();
  config.base_url = server.url();
  HttpProvider provider(config, Secret(secret_text), *transport, ledger, clock);
  std::atomic<int> answers = 0;
  std::vector<std::thread> seats;
  for (int i = 0; i < 32; ++i) {
    seats.emplace_back([&] { answers += provider.complete(sample_request(), {}).has_value() ? 1 : 0; });
  }
  for (std::thread& seat : seats) seat.join();
  CHECK(answers == 32);
  CHECK(ledger.spent().tokens == 32 * 60);
}

TEST_CASE("a probe says what a server has") {
  Loopback server([](const std::string& request) {
    if (request.starts_with("GET"))
      return Loopback::reply(200, R"({"object":"list","data":[{"id":"model-1"},{"id":"b"}]})");
    if (request.find("tool_choice") != std::string::npos)
      return Loopback::reply(
          200,
          R"({"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"echo","arguments":"{}"}}]},"finish_reason":"tool_calls"}]})");
    if (request.find("response_format") != std::string::npos)
      return Loopback::reply(400, R"({"error":{"message":"response_format is unavailable"}})");
    return Loopback::stream(openai_stream);
  });
  const auto transport = make_curl_transport();
  FakeClock clock;
  Ledger ledger({});
  ModelConfig config = sample_config();
  config.base_url = server.url();
  HttpProvider provider(config, Secret(secret_text), *transport, ledger, clock);
  const ModelReport report = probe(provider, {});
  CHECK(report.ok());
  CHECK(*report.listed);
  CHECK(report.answers);
  CHECK(report.tools);
  CHECK(!report.structured);  // it says "ready", which is no JSON
  CHECK(report.capabilities.structured == Structured::prompt);
  CHECK(report.usage);
  CHECK(report.spent.tokens > 0);
}
