// What servers refuse, how long they ask to wait, and what is done about it.
#include <doctest/doctest.h>

#include "fakes.h"
#include "llm/retry.h"
#include "llm/retry_after.h"

using namespace planish;
using namespace planish::llm;

namespace {

struct Asked {
  Answer answer;
  std::size_t sent = 0;
  std::vector<CallEvent> events;
  double seconds = 0;
};

/// Asks with retries on a clock that only waits move.
Asked asked(FakeTransport::Say say, RetryPolicy policy = {}, double deadline = 1000,
            const CancelToken* cancel = nullptr) {
  World world(std::move(say));
  RetryingProvider retrying(world.provider, policy, world.clock, 7);
  Asked out;
  Call call;
  call.deadline = world.clock.now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(deadline));
  call.cancel = cancel;
  call.listener = [&](const CallEvent& event) { out.events.push_back(event); };
  out.answer = retrying.complete(sample_request(), call);
  out.sent = world.transport.sent.size();
  out.seconds = world.clock.wall_seconds();
  return out;
}

FakeTransport::Say first(std::vector<HttpReply> replies) {
  auto left = std::make_shared<std::vector<HttpReply>>(std::move(replies));
  return [left](const HttpRequest&) -> Result<HttpReply> {
    if (left->empty()) return HttpReply{200, {}, openai_stream};
    HttpReply reply = left->front();
    left->erase(left->begin());
    return reply;
  };
}

}  // namespace

TEST_CASE("every form of asking to wait is understood") {
  const double now = 784111777;  // Sun, 06 Nov 1994 08:49:37 GMT
  const auto wait = [&](Headers headers, std::string body = {}) {
    return retry_after({429, std::move(headers), std::move(body)}, now);
  };
  CHECK(wait({{"retry-after", "7"}}) == 7);
  CHECK(wait({{"retry-after", "1.5"}}) == 1.5);
  CHECK(wait({{"retry-after", "20s"}}) == 20);
  CHECK(wait({{"retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"}}) == 10);
  CHECK(wait({{"retry-after", "Sunday, 06-Nov-94 08:49:47 GMT"}}) == 10);
  CHECK(wait({{"retry-after", "Sun Nov  6 08:49:47 1994"}}) == 10);
  CHECK(wait({{"retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"}}) == 0);
  CHECK(wait({{"retry-after-ms", "250"}, {"retry-after", "9"}}) == 0.25);
  CHECK(*wait({{"x-ratelimit-remaining-requests", "0"},
               {"x-ratelimit-reset-requests", "6m0s"},
               {"x-ratelimit-reset-tokens", "20ms"},
               {"x-ratelimit-remaining-tokens", "5"}}) == 360);
  CHECK(*wait({{"x-ratelimit-remaining-tokens", "0"}, {"x-ratelimit-reset-tokens", "17ms"}}) == doctest::Approx(0.017));
  CHECK(wait({{"x-ratelimit-reset", "784111787"}}) == 10);
  CHECK(wait({{"x-ratelimit-reset", "784111787000"}}) == 10);
  CHECK(wait({{"anthropic-ratelimit-requests-remaining", "0"},
              {"anthropic-ratelimit-requests-reset", "1994-11-06T08:49:40Z"}}) == 3);
  CHECK(wait({{"anthropic-ratelimit-requests-remaining", "0"},
              {"anthropic-ratelimit-requests-reset", "1994-11-06T10:49:40.5+02:00"}}) == 3);
  CHECK(*wait({}, R"({"error":{"message":"Please try again in 1.242s. Visit …"}})") == doctest::Approx(1.242));
  CHECK(wait({}, R"({"error":{"message":"Please try again in 1m30s."}})") == 90);
  CHECK(wait({}, R"([{"error":{"details":[{"@type":"x"},{"retryDelay":"34s"}]}}])") == 34);
  CHECK(wait({}, R"({"error":{"retry_after":3}})") == 3);
  CHECK(wait({}, R"({"retry_after_ms":1500})") == 1.5);
  CHECK(wait({}, R"({"error":{"metadata":{"headers":{"X-RateLimit-Reset":"784111787000"}}}})") == 10);
  CHECK(wait({}, "rate limited, retry after 12 seconds") == 12);
  for (const char* nonsense : {"soon", "", "-3", "nan", "1e400", "5 parsecs", "Sun, 99 Foo"}) {
    CAPTURE(nonsense);
    CHECK(!wait({{"retry-after", nonsense}}).has_value());
  }
}

TEST_CASE("statuses have the kinds that say what helps") {
  struct Case {
    int status;
    const char* body;
    const char* kind;
    std::size_t sent;
  };
  const std::vector<Case> cases = {
      {401, R"({"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}})", "model_unauthorized", 1},
      {403, "forbidden", "model_unauthorized", 1},
      {404, R"({"error":{"message":"The model does not exist","code":"model_not_found"}})", "model_unknown", 1},
      {400, R"({"error":{"message":"Invalid model name passed in model=x"}})", "model_unknown", 1},
      {400, R"({"error":{"message":"Invalid model name passed in model=x"}})", "model_unknown", 1},
      {400, R"({"error":{"message":"messages.0: wrong","type":"invalid_request_error"}})", "model_rejected", 1},
      {422, R"({"detail":"wrong"})", "model_rejected", 1},
      {400,
       R"({"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}})",
       "model_context", 1},
      {413, "too large", "model_context", 1},
      {402, R"({"error":"Insufficient credits"})", "model_quota", 1},
      {429, R"({"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}})", "model_quota", 1},
      {301, "moved", "model_rejected", 1},
      {429, R"({"error":{"message":"slow"}})", "model_rate_limited", 6},
      {500, "<html>oops</html>", "model_overloaded", 6},
      {502, "", "model_overloaded", 6},
      {503, "", "model_overloaded", 6},
      {529, R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})", "model_overloaded", 6},
  };
  for (const Case& one : cases) {
    CAPTURE(one.status);
    CAPTURE(one.body);
    const Asked out = asked([&](const HttpRequest&) { return HttpReply{one.status, {}, one.body}; });
    REQUIRE(!out.answer.has_value());
    CHECK(out.answer.error().error.kind.name() == one.kind);
    CHECK(out.sent == one.sent);
    CHECK(out.answer.error().error.message.find(std::to_string(one.status)) != std::string::npos);
  }
}

TEST_CASE("a wait that is asked for is kept, and visible") {
  const Asked out = asked(first({{429, {{"retry-after", "7"}}, "{}"}, {529, {}, "{}"}}));
  REQUIRE(out.answer.has_value());
  CHECK(out.sent == 3);
  CHECK(out.seconds >= 7);
  CHECK(out.seconds < 10);
  REQUIRE(out.events.size() == 3);
  CHECK(out.events[0].kind == CallEvent::Kind::waiting);
  CHECK(out.events[0].seconds >= 7);
  CHECK(out.events[2].kind == CallEvent::Kind::charged);
}

TEST_CASE("nobody waits past a deadline, nor for ever") {
  const Asked late = asked(first({{429, {{"retry-after", "100"}}, "{}"}}), {}, 50);
  CHECK(late.sent == 1);
  CHECK(late.seconds == 0);
  CHECK(late.answer.error().error.kind.name() == "model_rate_limited");
  const Asked hours = asked(first({{429, {{"retry-after", "7200"}}, "{}"}}), {}, 1e6);
  CHECK(hours.sent == 1);
  CHECK(hours.answer.error().elsewhere);
}

TEST_CASE("waits without a word from the server differ, double and are bounded") {
  const Asked out = asked([](const HttpRequest&) { return HttpReply{503, {}, ""}; }, {.attempts = 8}, 1e6);
  double most = 0.5;
  for (const CallEvent& event : out.events) {
    CHECK(event.seconds <= most);
    most = std::min(30.0, most * 2);
  }
  CHECK(out.events.size() == 7);
  CHECK(out.events[5].seconds != out.events[6].seconds);
}

TEST_CASE("nonsense is asked again once") {
  CHECK(asked(first({{200, {}, "<html>"}})).answer.has_value());
  const Asked out = asked([](const HttpRequest&) { return HttpReply{200, {}, "<html>"}; });
  CHECK(out.sent == 2);
  CHECK(out.answer.error().error.kind.name() == "model_bad_reply");
}

TEST_CASE("a connection that fails is tried again, a cancelled call is not") {
  int calls = 0;
  const Asked out = asked([&](const HttpRequest&) -> Result<HttpReply> {
    if (++calls < 3) return fail("model_unreachable", "no");
    return HttpReply{200, {}, openai_stream};
  });
  CHECK(out.answer.has_value());
  const CancelToken cancel;
  const Asked stopped = asked(
      [&](const HttpRequest&) {
        cancel.cancel();
        return HttpReply{503, {}, ""};
      },
      {}, 1000, &cancel);
  CHECK(stopped.sent == 1);
  CHECK(stopped.answer.error().error.kind.name() == "cancelled");
}

TEST_CASE("parameters that a server refuses are left out from then on") {
  World world([](const HttpRequest& request) {
    const auto refuse = [](const char* text) { return HttpReply{400, {}, text}; };
    if (request.body.find("\"max_tokens\"") != std::string::npos)
      return refuse(
          R"({"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}})");
    if (request.body.find("temperature") != std::string::npos)
      return refuse(
          R"({"error":{"message":"Unsupported value: 'temperature' does not support 0.7","param":"temperature"}})");
    if (request.body.find("json_schema") != std::string::npos)
      return refuse(R"({"error":{"message":"'response_format' of type json_schema is not supported"}})");
    if (request.body.find("stream_options") != std::string::npos)
      return refuse(R"({"detail":"stream_options: extra fields not permitted"})");
    return HttpReply{200, {}, openai_stream};
  });
  ChatRequest request = sample_request();
  request.temperature = 0.7;
  request.output = OutputSchema{"x", R"({"type":"object"})"};
  int adapted = 0;
  Call call;
  call.listener = [&](const CallEvent& event) { adapted += event.kind == CallEvent::Kind::adapted ? 1 : 0; };
  REQUIRE(world.provider->complete(request, call).has_value());
  CHECK(adapted == 4);
  CHECK(world.transport.sent.size() == 5);
  CHECK(world.provider->capabilities().structured == Structured::object);
  REQUIRE(world.provider->complete(request, {}).has_value());
  CHECK(world.transport.sent.size() == 6);
  CHECK(world.ledger.committed().tokens == 2 * 60);  // refusals cost nothing
}

TEST_CASE("a refusal about something else is final") {
  World world(
      [](const HttpRequest&) { return HttpReply{400, {}, R"({"error":{"message":"messages must alternate"}})"}; });
  CHECK(!world.provider->complete(sample_request(), {}).has_value());
  CHECK(world.transport.sent.size() == 1);
}

TEST_CASE("words that only look like parameters teach nothing") {
  for (
      const char* text :
      {R"({"error":{"message":"upstream said no"}})",
       R"({"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: this model's maximum context length is 4096"}})"}) {
    CAPTURE(text);
    World world([&](const HttpRequest&) { return HttpReply{400, {}, text}; });
    const Capabilities before = world.provider->capabilities();
    CHECK(!world.provider->complete(sample_request(), {}).has_value());
    CHECK(world.transport.sent.size() == 1);
    CHECK(world.provider->capabilities() == before);
  }
}

TEST_CASE("who comes after the deadline is not asked, and does not pay") {
  World world([](const HttpRequest&) { return HttpReply{200, {}, openai_stream}; });
  Call call;
  call.deadline = world.clock.now();
  CHECK(world.provider->complete(sample_request(), call).error().error.kind.name() == "model_timeout");
  CHECK(world.transport.sent.empty());
  CHECK(world.ledger.committed().tokens == 0);
}
