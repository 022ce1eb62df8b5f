#include "llm/chat.h"

#include <fmt/format.h>

#include "base/json.h"

namespace planish::llm {
namespace {

Status check_schema(const std::string& text, const std::string& what) {
  PLANISH_TRY(const Json schema, parse_json(text, "bad_chat_request", what));
  if (!schema.is_object()) return fail("bad_chat_request", fmt::format("{} is no JSON object", what));
  return {};
}

}  // namespace

std::string_view name(Role role) {
  return role == Role::planner ? "planner" : role == Role::coder ? "coder" : "judge";
}

Result<Role> role_from_name(std::string_view text) {
  for (const Role role : {Role::planner, Role::coder, Role::judge}) {
    if (name(role) == text) return role;
  }
  return fail("models_config", fmt::format("there is no role '{}'", text), "roles are planner, coder and judge");
}

std::string_view name(Stop stop) {
  switch (stop) {
    case Stop::finished:
      return "finished";
    case Stop::length:
      return "length";
    case Stop::tool_calls:
      return "tool_calls";
    case Stop::refused:
      return "refused";
    case Stop::other:
      break;
  }
  return "other";
}

Status check(const ChatRequest& request) {
  const auto bad = [](std::string text) { return fail("bad_chat_request", "request to a model: " + std::move(text)); };
  if (request.messages.empty()) return bad("there is no message to answer");
  if (request.messages.front().speaker != Speaker::user) return bad("the first message must be the user's");
  if (request.messages.back().speaker == Speaker::assistant) return bad("the last message is the model's own");
  for (std::size_t i = 1; i < request.system.size(); ++i) {
    if (request.system[i].scope < request.system[i - 1].scope)
      return bad(
          fmt::format("part {} of the prompt lives longer than the one before it: nothing behind a part that "
                      "changes can be cached",
                      i));
  }
  for (const PromptPart& part : request.system) {
    if (part.text.empty()) return bad("a part of the prompt is empty");
  }
  for (const Message& message : request.messages) {
    if (message.speaker == Speaker::tool && message.call_id.empty()) return bad("a tool's message answers no call");
    if (message.speaker != Speaker::assistant && !message.calls.empty()) return bad("only the model calls tools");
    if (message.text.empty() && message.calls.empty() && message.speaker != Speaker::tool)
      return bad("a message is empty");
  }
  for (const Tool& tool : request.tools) PLANISH_CHECK(check_schema(tool.schema, "schema of the tool " + tool.name));
  if (request.output) PLANISH_CHECK(check_schema(request.output->schema, "schema of the answer"));
  if (request.max_output_tokens < 0) return bad("the most tokens of an answer must be positive");
  return {};
}

}  // namespace planish::llm
