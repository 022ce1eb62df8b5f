#include <fmt/format.h>

#include <map>

#include "base/json.h"
#include "llm/wire.h"

namespace planish::llm {
namespace {

Json chat_message(const Message& message) {
  if (message.speaker == Speaker::tool)
    return {{"role", "tool"}, {"tool_call_id", message.call_id}, {"content", message.text}};
  if (message.speaker == Speaker::user) return {{"role", "user"}, {"content", message.text}};
  Json out = {{"role", "assistant"}};
  if (!message.text.empty() || message.calls.empty()) out["content"] = message.text;
  for (const ToolCall& call : message.calls) {
    out["tool_calls"].push_back(
        {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return out;
}

Json schema_of(const std::string& text) {
  auto parsed = parse_json(text, "bad_chat_request", "schema");
  return parsed ? *parsed : Json::object();  // check() has been through it
}

std::int64_t count_of(const Json& holder, const char* field) {
  const auto found = holder.find(field);
  return found != holder.end() && found->is_number() ? std::max<std::int64_t>(0, found->get<std::int64_t>()) : 0;
}

std::string text_in(const Json& holder, const char* field) {
  const auto found = holder.find(field);
  return found != holder.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class ChatReader : public AnswerReader {
 public:
  std::expected<bool, Failure> event(std::string_view, std::string_view data) override {
    if (data == "[DONE]") {
      done_ = true;
      return true;
    }
    const auto json = parse_json(data, "model_bad_reply", "a piece of the stream");
    if (!json) return std::unexpected(bad_reply(json.error().message));
    if (auto taken = document(*json, "delta"); !taken) return std::unexpected(std::move(taken).error());
    return false;
  }

  std::expected<void, Failure> whole(std::string_view body) override {
    const auto json = parse_json(body, "model_bad_reply", "the answer");
    if (!json) return std::unexpected(bad_reply(json.error().message));
    if (auto taken = document(*json, "message"); !taken) return std::unexpected(std::move(taken).error());
    if (!chosen_)
      return std::unexpected(bad_reply("the answer has no `choices`", "is this a chat completions endpoint?"));
    done_ = true;
    return {};
  }

  Answer finish() override {
    // Some servers end their streams without [DONE].
    if (!done_ && !finished_) return std::unexpected(bad_reply("the stream ended in the middle of the answer"));
    if (!chosen_) return std::unexpected(bad_reply("the stream held no answer"));
    for (auto& [index, call] : calls_) reply_.calls.push_back(std::move(call));
    if (reply_.stop == Stop::finished && !reply_.calls.empty()) reply_.stop = Stop::tool_calls;
    return std::move(reply_);
  }

 private:
  std::expected<void, Failure> document(const Json& json, const char* part) {
    if (!json.is_object()) return std::unexpected(bad_reply("a piece of the answer is no JSON object"));
    if (const auto error = json.find("error"); error != json.end() && !error->is_null()) {
      const bool object = error->is_object();
      const int status =
          object && error->contains("code") && (*error)["code"].is_number_integer() ? (*error)["code"].get<int>() : 0;
      Failure failure = error_failure(status, object ? text_in(*error, "type") + " " + text_in(*error, "code") : "",
                                      object ? text_in(*error, "message") : dump_json(*error), "the server");
      failure.billed = true;
      if (status == 0 && failure.error.kind == "model_rejected") failure.retry = failure.elsewhere = true;
      return std::unexpected(std::move(failure));
    }
    if (const auto name = text_in(json, "model"); !name.empty()) reply_.model = name;
    if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object()) take_usage(*usage);
    const auto choices = json.find("choices");
    if (choices == json.end() || !choices->is_array() || choices->empty()) return {};
    const Json& choice = choices->front();
    if (!choice.is_object()) return std::unexpected(bad_reply("`choices` holds no object"));
    chosen_ = true;
    if (const auto message = choice.find(part); message != choice.end() && message->is_object()) take_message(*message);
    if (const std::string reason = text_in(choice, "finish_reason"); !reason.empty()) {
      finished_ = true;
      reply_.stop = reason == "stop"                                      ? Stop::finished
                    : reason == "length"                                  ? Stop::length
                    : reason == "tool_calls" || reason == "function_call" ? Stop::tool_calls
                    : reason == "content_filter"                          ? Stop::refused
                                                                          : Stop::other;
    }
    if (refused_) reply_.stop = Stop::refused;
    return {};
  }

  void take_message(const Json& message) {
    const auto content = message.find("content");
    if (content != message.end() && content->is_string()) reply_.text += content->get<std::string>();
    if (content != message.end() && content->is_array()) {
      for (const Json& part : *content) {
        if (part.is_object()) reply_.text += text_in(part, "text");
      }
    }
    if (const std::string refusal = text_in(message, "refusal"); !refusal.empty()) {
      reply_.text += refusal;
      refused_ = true;
    }
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) return;
    std::int64_t place = 0;
    for (const Json& item : *calls) {
      if (!item.is_object()) continue;
      const auto index = item.find("index");
      ToolCall& call = calls_[index != item.end() && index->is_number_integer() ? index->get<std::int64_t>() : place];
      ++place;
      if (const std::string id = text_in(item, "id"); !id.empty()) call.id = id;
      const auto function = item.find("function");
      if (function == item.end() || !function->is_object()) continue;
      if (const std::string name = text_in(*function, "name"); !name.empty()) call.name = name;
      const auto arguments = function->find("arguments");
      if (arguments == function->end()) continue;
      // Text by the book; some servers send the object itself.
      if (arguments->is_string()) call.arguments += arguments->get<std::string>();
      if (arguments->is_object()) call.arguments = dump_json(*arguments);
    }
  }

  void take_usage(const Json& usage) {
    Usage& out = reply_.usage;
    out = {};
    const std::int64_t input = count_of(usage, "prompt_tokens");
    if (const auto details = usage.find("prompt_tokens_details"); details != usage.end() && details->is_object())
      out.cached = std::min(input, count_of(*details, "cached_tokens"));
    if (const auto details = usage.find("completion_tokens_details"); details != usage.end() && details->is_object())
      out.reasoning = count_of(*details, "reasoning_tokens");
    out.fresh = input - out.cached;
    out.output = count_of(usage, "completion_tokens");
    out.known = usage.contains("prompt_tokens") && usage.contains("completion_tokens");
  }

  ChatReply reply_;
  std::map<std::int64_t, ToolCall> calls_;
  bool done_ = false, finished_ = false, chosen_ = false, refused_ = false;
};

class OpenaiWire : public Wire {
 public:
  HttpRequest request(const ChatRequest& request, const ModelConfig& config,
                      const Capabilities& capabilities) const override {
    Json body = {{"model", config.name}};
    Json messages = Json::array();
    std::string system;
    for (const PromptPart& part : request.system) system += (system.empty() ? "" : "\n\n") + part.text;
    if (request.output &&
        (capabilities.structured == Structured::prompt || capabilities.structured == Structured::object))
      system += (system.empty() ? "" : "\n\n") + schema_instruction(*request.output);
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    for (const Message& message : request.messages) messages.push_back(chat_message(message));
    body["messages"] = std::move(messages);
    body[capabilities.completion_tokens ? "max_completion_tokens" : "max_tokens"] =
        request.max_output_tokens > 0 ? request.max_output_tokens : config.max_output_tokens;
    const auto temperature = request.temperature ? request.temperature : config.temperature;
    if (temperature && capabilities.temperature) body["temperature"] = *temperature;
    if (!config.effort.empty() && capabilities.effort) body["reasoning_effort"] = config.effort;
    add_tools(body, request, capabilities);
    if (capabilities.stream) {
      body["stream"] = true;
      if (capabilities.stream_usage) body["stream_options"] = {{"include_usage", true}};
    }
    return {"POST", config.base_url + "/chat/completions", {{"content-type", "application/json"}}, dump_json(body)};
  }

  void authorise(HttpRequest& request, const Secret& key) const override {
    if (!key.empty()) request.headers.emplace_back("authorization", "Bearer " + key.reveal());
  }

  HttpRequest list(const ModelConfig& config) const override {
    return {"GET", config.base_url + "/models", {{"accept", "application/json"}}, {}};
  }

  std::unique_ptr<AnswerReader> reader() const override { return std::make_unique<ChatReader>(); }

 private:
  static void add_tools(Json& body, const ChatRequest& request, const Capabilities& capabilities) {
    const auto add = [&](const std::string& name, const std::string& description, const std::string& schema) {
      body["tools"].push_back(
          {{"type", "function"},
           {"function", {{"name", name}, {"description", description}, {"parameters", schema_of(schema)}}}});
    };
    if (capabilities.tools) {
      for (const Tool& tool : request.tools) add(tool.name, tool.description, tool.schema);
      if (!request.tools.empty() && request.tool_use != ToolUse::automatic)
        body["tool_choice"] = request.tool_use == ToolUse::none ? "none" : "required";
    }
    if (!request.output) return;
    if (capabilities.structured == Structured::schema) {
      body["response_format"] = {
          {"type", "json_schema"},
          {"json_schema",
           {{"name", request.output->name}, {"schema", schema_of(request.output->schema)}, {"strict", true}}}};
    } else if (capabilities.structured == Structured::object) {
      body["response_format"] = {{"type", "json_object"}};
    } else if (capabilities.structured == Structured::tool) {
      add(request.output->name, "Gives the answer.", request.output->schema);
      body["tool_choice"] = {{"type", "function"}, {"function", {{"name", request.output->name}}}};
    }
  }
};

}  // namespace

const Wire& openai_wire() {
  static const OpenaiWire wire;
  return wire;
}

}  // namespace planish::llm
