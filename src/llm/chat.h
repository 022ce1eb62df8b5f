#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace planish::llm {

/// Whose place a model takes.
enum class Role : std::uint8_t { planner, coder, judge };
std::string_view name(Role role);
/// Kind `models_config`.
Result<Role> role_from_name(std::string_view text);

/// How long a part of the prompt stays the same, longest first. Servers cache prefixes, so a request must hold its
/// parts in this order.
enum class Scope : std::uint8_t { fixed, task, cell, candidate };
struct PromptPart {
  Scope scope = Scope::fixed;
  std::string text;
};

/// A function that the model asks for. `arguments` is JSON text as the model wrote it: it may be no JSON at all.
struct ToolCall {
  std::string id, name, arguments;
};

enum class Speaker : std::uint8_t { user, assistant, tool };
struct Message {
  Speaker speaker = Speaker::user;
  std::string text;
  std::vector<ToolCall> calls;  ///< of an assistant's message
  std::string call_id;          ///< of a tool's message: the call that it answers
};

/// `schema` is a JSON schema of an object, as text.
struct Tool {
  std::string name, description, schema;
};
struct OutputSchema {
  std::string name, schema;
};

enum class ToolUse : std::uint8_t { automatic, none, required };

/// One question to a model. A value type.
struct ChatRequest {
  /// Who asks ("agent 7"). Not sent; tells equal requests of several seats apart in a recording.
  std::string lane;
  Role role = Role::coder;
  std::vector<PromptPart> system;
  std::vector<Message> messages;
  std::vector<Tool> tools;
  ToolUse tool_use = ToolUse::automatic;
  std::optional<OutputSchema> output;
  int max_output_tokens = 0;          ///< reasoning included; 0: what the configuration says
  std::optional<double> temperature;  ///< nothing: what the configuration says
};
/// Kind `bad_chat_request`: nothing to answer, parts out of order, a schema that is no JSON object, …
Status check(const ChatRequest& request);

/// Tokens of one call. The first four are disjoint.
struct Usage {
  std::int64_t fresh = 0;         ///< input read anew
  std::int64_t cached = 0;        ///< input from the server's cache
  std::int64_t cache_writes = 0;  ///< input that was read anew and kept
  std::int64_t output = 0;        ///< reasoning included
  std::int64_t reasoning = 0;     ///< part of `output`, where the server says so
  bool known = false;             ///< the server reported it
  std::int64_t total() const { return fresh + cached + cache_writes + output; }
};

enum class Stop : std::uint8_t { finished, length, tool_calls, refused, other };
std::string_view name(Stop stop);

struct ChatReply {
  std::string text;
  std::vector<ToolCall> calls;
  /// With ChatRequest::output: the answer as compact JSON that satisfies the schema, or empty and what is wrong.
  std::string json, json_problem;
  Usage usage;
  Stop stop = Stop::finished;
  std::string model;             ///< as the server names it
  std::string label;             ///< as the configuration names it
  std::int64_t nanodollars = 0;  ///< by the configured price; unknown usage counts as the whole reservation
  double seconds = 0;            ///< of the attempt that succeeded
};

}  // namespace planish::llm
