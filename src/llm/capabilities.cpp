#include "llm/capabilities.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/json.h"

namespace planish::llm {
namespace {

/// Where the server says which parameter it means, that alone; else the whole message. Lower case.
std::string complaint(std::string_view body) {
  std::string text(body.substr(0, 16384));
  if (const auto json = parse_json(text, "bad_text", "x"); json && json->is_object()) {
    const Json& error = json->contains("error") ? (*json)["error"] : *json;
    std::string param, message;
    if (error.is_object()) {
      if (const auto found = error.find("param"); found != error.end() && found->is_string()) param = *found;
      if (const auto found = error.find("message"); found != error.end() && found->is_string()) message = *found;
    }
    // "max_tokens is not supported, use max_completion_tokens instead": the message is needed too.
    if (!param.empty() || !message.empty()) text = param + "\n" + message;
  }
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

Capabilities expected_capabilities(const ModelConfig& config) {
  Capabilities out;
  if (config.structured != Structured::automatic) out.structured = config.structured;
  // What reasoning models of OpenAI take; other servers know the older name, and are asked with the newer one when they
  // refuse it.
  if (config.reasoning.value_or(false)) {
    out.completion_tokens = true;
    if (config.wire == WireKind::openai) out.temperature = false;
  }
  return out;
}

std::optional<Capabilities> learned(const Capabilities& now, const ModelConfig& config, std::string_view body) {
  const std::string text = complaint(body);
  const auto says = [&](const char* word) { return text.find(word) != std::string::npos; };
  Capabilities next = now;
  const bool openai = config.wire == WireKind::openai;
  if (openai && !now.completion_tokens && says("max_completion_tokens")) {
    next.completion_tokens = true;
  } else if (openai && now.completion_tokens && says("max_completion_tokens")) {
    next.completion_tokens = false;
  } else if (now.temperature && says("temperature")) {
    next.temperature = false;
  } else if (now.stream_usage && (says("stream_options") || says("include_usage"))) {
    next.stream_usage = false;
  } else if (now.effort && !config.effort.empty() && says("effort")) {
    next.effort = false;
  } else if (now.structured == Structured::schema &&
             (says("json_schema") || says("response_format") || says("output_config") || says("structured output") ||
              says("output_format"))) {
    next.structured = openai ? Structured::object : Structured::tool;
  } else if (now.structured == Structured::object && (says("response_format") || says("json_object"))) {
    next.structured = Structured::prompt;
  } else if (now.structured == Structured::tool && (says("tool_choice") || says("tools"))) {
    next.structured = Structured::prompt;
  } else if (now.cache_marks && says("cache_control")) {
    next.cache_marks = false;
  } else if (now.stream && (says("'stream'") || says("\"stream\"") || says("`stream`") || says("streaming"))) {
    // The bare word stands in "upstream" as well.
    next.stream = false;
  }
  if (next == now) return std::nullopt;
  return next;
}

}  // namespace planish::llm
