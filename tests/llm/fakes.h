#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llm/http_provider.h"

namespace planish::llm {

inline const std::string secret_text = "sk-test-0123456789abcdefghijklmnop";

/// Answers from a function; remembers what was sent.
class FakeTransport : public Transport {
 public:
  using Say = std::function<Result<HttpReply>(const HttpRequest&)>;
  explicit FakeTransport(Say say) : say_(std::move(say)) {}
  Result<HttpReply> send(const HttpRequest& request, const HttpLimits&, const CancelToken*,
                         const BodySink& sink) override {
    {
      std::scoped_lock lock(mutex_);
      sent.push_back(request);
    }
    auto reply = say_(request);
    if (reply && sink && reply->status >= 200 && reply->status < 300) {
      // In small pieces, as a network may cut them.
      std::string_view rest = reply->body;
      while (!rest.empty()) {
        const auto n = std::min<std::size_t>(7, rest.size());
        if (!sink(rest.substr(0, n))) break;
        rest.remove_prefix(n);
      }
      reply->body.clear();
    }
    return reply;
  }
  std::vector<HttpRequest> sent;

 private:
  std::mutex mutex_;
  Say say_;
};

inline ModelConfig sample_config(WireKind wire = WireKind::openai) {
  ModelConfig out;
  out.name = "model-1";
  out.label = "first";
  out.wire = wire;
  out.base_url = "http://127.0.0.1:9/v1";
  out.key_env = "SAMPLE_KEY";
  out.roles = {Role::coder};
  out.price = Price{2.0, 0.2, 2.5, 8.0};
  return out;
}

inline ChatRequest sample_request(std::string text = "hello") {
  ChatRequest out;
  out.lane = "agent 0";
  out.system = {{Scope::fixed, "You write kernels."},
                {Scope::task, "The task."},
                {Scope::cell, "The cell."},
                {Scope::candidate, "The parent."}};
  out.messages = {{Speaker::user, std::move(text), {}, {}}};
  out.max_output_tokens = 100;
  return out;
}

inline const std::string openai_stream =
    "data: "
    "{\"id\":\"a\",\"model\":\"model-1-x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":"
    "\"re\"}}]}\n\n"
    ": keep alive\n\n"
    "data: {\"model\":\"model-1-x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ady\"}}]}\r\n\r\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: "
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":10,\"prompt_tokens_details\":{\"cached_"
    "tokens\":40},"
    "\"completion_tokens_details\":{\"reasoning_tokens\":4}}}\n\n"
    "data: [DONE]\n\n";

inline const std::string anthropic_stream =
    "event: message_start\ndata: "
    "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"model-1-y\",\"content\":[],"
    "\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":20,\"cache_read_input_tokens\":30,\"output_tokens\":"
    "1}}}\n\n"
    "event: ping\ndata: {\"type\":\"ping\"}\n\n"
    "event: content_block_start\ndata: "
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n"
    "event: content_block_delta\ndata: "
    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n"
    "event: content_block_start\ndata: "
    "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
    "event: content_block_delta\ndata: "
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"ready\"}}\n\n"
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
    "event: content_block_start\ndata: "
    "{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":"
    "\"echo\",\"input\":{}}}\n\n"
    "event: content_block_delta\ndata: "
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{"
    "\\\"word\\\":\"}}\n\n"
    "event: content_block_delta\ndata: "
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":"
    "\"\\\"a\\\"}\"}}\n\n"
    "event: message_delta\ndata: "
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":12}}\n\n"
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// A provider with everything it needs, for one test.
struct World {
  explicit World(FakeTransport::Say say, ModelConfig config = sample_config(), Spending limits = {})
      : transport(std::move(say)),
        ledger(limits),
        provider(std::make_shared<HttpProvider>(std::move(config), Secret(secret_text), transport, ledger, clock)) {}
  FakeClock clock;
  FakeTransport transport;
  Ledger ledger;
  std::shared_ptr<HttpProvider> provider;
};

}  // namespace planish::llm
