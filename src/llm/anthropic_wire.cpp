#include <fmt/format.h>

#include <map>

#include "base/json.h"
#include "llm/wire.h"

namespace planish::llm {
namespace {

Json parsed_or_empty(const std::string& text) {
  auto parsed = parse_json(text, "bad_chat_request", "JSON");
  return parsed && parsed->is_object() ? *parsed : Json::object();
}

std::int64_t tokens_in(const Json& holder, const char* field) {
  const auto found = holder.find(field);
  return found != holder.end() && found->is_number() ? std::max<std::int64_t>(0, found->get<std::int64_t>()) : 0;
}

std::string word_in(const Json& holder, const char* field) {
  const auto found = holder.find(field);
  return found != holder.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Content blocks by their type. What tools returned is said by the user here, and neighbours become one message.
Json content_messages(const std::vector<Message>& messages) {
  Json out = Json::array();
  for (const Message& message : messages) {
    const char* role = message.speaker == Speaker::assistant ? "assistant" : "user";
    if (out.empty() || out.back()["role"] != role) out.push_back({{"role", role}, {"content", Json::array()}});
    Json& content = out.back()["content"];
    if (message.speaker == Speaker::tool) {
      content.push_back({{"type", "tool_result"}, {"tool_use_id", message.call_id}, {"content", message.text}});
      continue;
    }
    if (!message.text.empty()) content.push_back({{"type", "text"}, {"text", message.text}});
    for (const ToolCall& call : message.calls) {
      content.push_back(
          {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", parsed_or_empty(call.arguments)}});
    }
  }
  return out;
}

class MessageReader : public AnswerReader {
 public:
  std::expected<bool, Failure> event(std::string_view, std::string_view data) override {
    const auto json = parse_json(data, "model_bad_reply", "a piece of the stream");
    if (!json) return std::unexpected(bad_reply(json.error().message));
    if (!json->is_object()) return std::unexpected(bad_reply("a piece of the stream is no JSON object"));
    const std::string type = word_in(*json, "type");
    if (type == "error" || json->contains("error")) return std::unexpected(error_of(*json));
    if (type == "message_start" && json->contains("message") && (*json)["message"].is_object()) {
      begin((*json)["message"]);
    } else if (type == "content_block_start" && json->contains("content_block")) {
      block(tokens_in(*json, "index"), (*json)["content_block"]);
    } else if (type == "content_block_delta" && json->contains("delta") && (*json)["delta"].is_object()) {
      const Json& delta = (*json)["delta"];
      const std::string kind = word_in(delta, "type");
      Block& target = blocks_[tokens_in(*json, "index")];
      if (kind == "text_delta") target.text += word_in(delta, "text");
      if (kind == "input_json_delta") target.arguments += word_in(delta, "partial_json");
    } else if (type == "message_delta") {
      if (json->contains("delta") && (*json)["delta"].is_object()) stop(word_in((*json)["delta"], "stop_reason"));
      if (json->contains("usage") && (*json)["usage"].is_object()) usage((*json)["usage"]);
    } else if (type == "message_stop") {
      done_ = true;
      return true;
    }
    // Pings and kinds of events that are younger than this code.
    return false;
  }

  std::expected<void, Failure> whole(std::string_view body) override {
    const auto json = parse_json(body, "model_bad_reply", "the answer");
    if (!json) return std::unexpected(bad_reply(json.error().message));
    if (!json->is_object()) return std::unexpected(bad_reply("the answer is no JSON object"));
    if (word_in(*json, "type") == "error" || json->contains("error")) return std::unexpected(error_of(*json));
    const auto content = json->find("content");
    if (content == json->end() || !content->is_array())
      return std::unexpected(bad_reply("the answer has no `content`", "is this an Anthropic Messages endpoint?"));
    begin(*json);
    std::int64_t index = 0;
    for (const Json& item : *content) block(index++, item);
    stop(word_in(*json, "stop_reason"));
    done_ = true;
    return {};
  }

  Answer finish() override {
    if (!done_) return std::unexpected(bad_reply("the stream ended in the middle of the answer"));
    if (!begun_) return std::unexpected(bad_reply("the stream held no answer"));
    for (auto& [index, item] : blocks_) {
      if (item.tool) {
        reply_.calls.push_back({item.id, item.name, item.arguments.empty() ? "{}" : item.arguments});
      } else {
        reply_.text += item.text;
      }
    }
    reply_.usage.known = has_input_ && has_output_;
    return std::move(reply_);
  }

 private:
  struct Block {
    bool tool = false;
    std::string text, id, name, arguments;
  };

  Failure error_of(const Json& json) const {
    const auto found = json.find("error");
    const Json& error = found != json.end() && found->is_object() ? *found : json;
    Failure failure = error_failure(0, word_in(error, "type"), word_in(error, "message"), "the server");
    failure.billed = true;
    return failure;
  }
  void begin(const Json& message) {
    begun_ = true;
    reply_.model = word_in(message, "model");
    if (message.contains("usage") && message["usage"].is_object()) usage(message["usage"]);
  }
  void block(std::int64_t index, const Json& json) {
    if (!json.is_object()) return;
    Block& target = blocks_[index];
    const std::string type = word_in(json, "type");
    if (type == "text") target.text += word_in(json, "text");
    if (type == "tool_use") {
      target.tool = true;
      target.id = word_in(json, "id");
      target.name = word_in(json, "name");
      if (json.contains("input") && json["input"].is_object() && !json["input"].empty())
        target.arguments = dump_json(json["input"]);
    }
  }
  void stop(const std::string& reason) {
    if (reason.empty()) return;
    reply_.stop = reason == "end_turn" || reason == "stop_sequence"                     ? Stop::finished
                  : reason == "max_tokens" || reason == "model_context_window_exceeded" ? Stop::length
                  : reason == "tool_use"                                                ? Stop::tool_calls
                  : reason == "refusal"                                                 ? Stop::refused
                                                                                        : Stop::other;
  }
  /// Later counts are cumulative, and may leave out what has not changed.
  void usage(const Json& json) {
    Usage& out = reply_.usage;
    if (json.contains("input_tokens") && json["input_tokens"].is_number()) {
      out.fresh = tokens_in(json, "input_tokens");
      has_input_ = true;
    }
    if (json.contains("cache_read_input_tokens")) out.cached = tokens_in(json, "cache_read_input_tokens");
    if (json.contains("cache_creation_input_tokens")) out.cache_writes = tokens_in(json, "cache_creation_input_tokens");
    if (json.contains("output_tokens") && json["output_tokens"].is_number()) {
      out.output = tokens_in(json, "output_tokens");
      has_output_ = true;
    }
  }

  ChatReply reply_;
  std::map<std::int64_t, Block> blocks_;
  bool begun_ = false, done_ = false, has_input_ = false, has_output_ = false;
};

class AnthropicWire : public Wire {
 public:
  HttpRequest request(const ChatRequest& request, const ModelConfig& config,
                      const Capabilities& capabilities) const override {
    Json body = {{"model", config.name},
                 {"max_tokens", request.max_output_tokens > 0 ? request.max_output_tokens : config.max_output_tokens},
                 {"messages", content_messages(request.messages)}};
    Json system = Json::array();
    for (std::size_t i = 0; i < request.system.size(); ++i) {
      Json block = {{"type", "text"}, {"text", request.system[i].text}};
      // A mark at the end of each scope that outlives a candidate: three of the four that there may be.
      const bool last = i + 1 == request.system.size() || request.system[i + 1].scope != request.system[i].scope;
      if (capabilities.cache_marks && last && request.system[i].scope != Scope::candidate)
        block["cache_control"] = {{"type", "ephemeral"}};
      system.push_back(std::move(block));
    }
    if (request.output &&
        (capabilities.structured == Structured::prompt || capabilities.structured == Structured::object))
      system.push_back({{"type", "text"}, {"text", schema_instruction(*request.output)}});
    if (!system.empty()) body["system"] = std::move(system);
    const auto temperature = request.temperature ? request.temperature : config.temperature;
    if (temperature && capabilities.temperature) body["temperature"] = std::min(1.0, *temperature);
    if (!config.effort.empty() && capabilities.effort) body["output_config"]["effort"] = config.effort;
    if (capabilities.tools) {
      for (const Tool& tool : request.tools) {
        body["tools"].push_back(
            {{"name", tool.name}, {"description", tool.description}, {"input_schema", parsed_or_empty(tool.schema)}});
      }
      if (!request.tools.empty() && request.tool_use != ToolUse::automatic)
        body["tool_choice"] = {{"type", request.tool_use == ToolUse::none ? "none" : "any"}};
    }
    if (request.output && capabilities.structured == Structured::schema) {
      body["output_config"]["format"] = {{"type", "json_schema"}, {"schema", parsed_or_empty(request.output->schema)}};
    } else if (request.output && capabilities.structured == Structured::tool) {
      body["tools"].push_back({{"name", request.output->name},
                               {"description", "Gives the answer."},
                               {"input_schema", parsed_or_empty(request.output->schema)}});
      body["tool_choice"] = {{"type", "tool"}, {"name", request.output->name}};
    }
    if (capabilities.stream) body["stream"] = true;
    return {"POST", root(config) + "/v1/messages", versioned({{"content-type", "application/json"}}), dump_json(body)};
  }

  void authorise(HttpRequest& request, const Secret& key) const override {
    if (!key.empty()) request.headers.emplace_back("x-api-key", key.reveal());
  }

  HttpRequest list(const ModelConfig& config) const override {
    return {"GET", root(config) + "/v1/models?limit=1000", versioned({{"accept", "application/json"}}), {}};
  }

  std::unique_ptr<AnswerReader> reader() const override { return std::make_unique<MessageReader>(); }

 private:
  /// People write the address with the version and without.
  static std::string root(const ModelConfig& config) {
    return config.base_url.ends_with("/v1") ? config.base_url.substr(0, config.base_url.size() - 3) : config.base_url;
  }
  static Headers versioned(Headers headers) {
    headers.emplace_back("anthropic-version", "2023-06-01");
    return headers;
  }
};

}  // namespace

const Wire& anthropic_wire() {
  static const AnthropicWire wire;
  return wire;
}

}  // namespace planish::llm
