#include "llm/cassette_json.h"

#include <array>

#include "base/json.h"

namespace planish::llm {
namespace {

constexpr std::array<const char*, 4> scope_names{"fixed", "task", "cell", "candidate"};
constexpr std::array<const char*, 3> speaker_names{"user", "assistant", "tool"};
constexpr std::array<const char*, 3> tool_use_names{"automatic", "none", "required"};
constexpr std::array<const char*, 4> event_names{"charged", "adapted", "waiting", "fallback"};
constexpr std::array<Stop, 5> stops{Stop::finished, Stop::length, Stop::tool_calls, Stop::refused, Stop::other};

Json calls_json(const std::vector<ToolCall>& calls) {
  Json out = Json::array();
  for (const ToolCall& call : calls)
    out.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  return out;
}

Json reply_json(const ChatReply& reply) {
  const Usage& usage = reply.usage;
  return {{"text", reply.text},
          {"calls", calls_json(reply.calls)},
          {"json", reply.json},
          {"json_problem", reply.json_problem},
          {"usage",
           {{"fresh", usage.fresh},
            {"cached", usage.cached},
            {"cache_writes", usage.cache_writes},
            {"output", usage.output},
            {"reasoning", usage.reasoning},
            {"known", usage.known}}},
          {"stop", name(reply.stop)},
          {"model", reply.model},
          {"label", reply.label},
          {"nanodollars", reply.nanodollars},
          {"seconds", reply.seconds}};
}

Json failure_json(const Failure& failure) {
  Json out = {{"kind", failure.error.kind}, {"message", failure.error.message}, {"causes", failure.error.causes},
              {"hint", failure.error.hint}, {"retry", failure.retry},           {"elsewhere", failure.elsewhere},
              {"billed", failure.billed}};
  if (failure.wait_seconds) out["wait_seconds"] = *failure.wait_seconds;
  return out;
}

Result<ChatReply> reply_from_json(const Json& json) {
  ChatReply out;
  ObjectReader reader(json, "cassette_corrupt", "reply");
  std::string stop;
  reader.text("text", out.text);
  reader.text("json", out.json);
  reader.text("json_problem", out.json_problem);
  reader.text("stop", stop);
  reader.text("model", out.model);
  reader.text("label", out.label);
  reader.integer("nanodollars", out.nanodollars);
  reader.number("seconds", out.seconds);
  if (const Json* calls = reader.array("calls")) {
    for (const Json& item : *calls) {
      ToolCall call;
      ObjectReader inner(item, "cassette_corrupt", "reply.calls");
      inner.text("id", call.id);
      inner.text("name", call.name);
      inner.text("arguments", call.arguments);
      PLANISH_CHECK(inner.finish());
      out.calls.push_back(std::move(call));
    }
  }
  if (const Json* usage = reader.object("usage")) {
    ObjectReader inner(*usage, "cassette_corrupt", "reply.usage");
    inner.integer("fresh", out.usage.fresh);
    inner.integer("cached", out.usage.cached);
    inner.integer("cache_writes", out.usage.cache_writes);
    inner.integer("output", out.usage.output);
    inner.integer("reasoning", out.usage.reasoning);
    inner.boolean("known", out.usage.known);
    PLANISH_CHECK(inner.finish());
  }
  bool known = false;
  for (const Stop one : stops) {
    if (name(one) == stop) out.stop = one, known = true;
  }
  if (!known) reader.problem("`stop` is none of the known words");
  PLANISH_CHECK(reader.finish());
  return out;
}

Result<Failure> failure_from_json(const Json& json) {
  Failure out;
  std::string kind;
  ObjectReader reader(json, "cassette_corrupt", "error");
  reader.text("kind", kind);
  reader.text("message", out.error.message);
  reader.texts("causes", out.error.causes);
  reader.text("hint", out.error.hint);
  const auto known_kind = ErrorKind::named(kind);
  if (!known_kind) reader.problem(fmt::format("there is no kind of error `{}`", kind));
  out.error.kind = known_kind.value_or(ErrorKind("unknown"));
  reader.boolean("retry", out.retry);
  reader.boolean("elsewhere", out.elsewhere);
  reader.boolean("billed", out.billed);
  double wait = -1;
  reader.number("wait_seconds", wait, ObjectReader::Need::optional);
  if (wait >= 0) out.wait_seconds = wait;
  PLANISH_CHECK(reader.finish());
  return out;
}

Result<CallEvent> event_from_json(const Json& json) {
  CallEvent out;
  ObjectReader reader(json, "cassette_corrupt", "events");
  std::string kind;
  reader.text("kind", kind);
  reader.text("label", out.label);
  reader.text("text", out.text);
  reader.number("seconds", out.seconds);
  reader.integer("tokens", out.amount.tokens);
  reader.integer("nanodollars", out.amount.nanodollars);
  bool known = false;
  for (std::size_t i = 0; i < event_names.size(); ++i) {
    if (kind == event_names[i]) out.kind = static_cast<CallEvent::Kind>(i), known = true;
  }
  if (!known) reader.problem("`kind` is none of the known words");
  PLANISH_CHECK(reader.finish());
  return out;
}

}  // namespace

std::string request_text(const ChatRequest& request) {
  Json out = {{"lane", request.lane},
              {"role", name(request.role)},
              {"max_output_tokens", request.max_output_tokens},
              {"tool_use", tool_use_names[static_cast<std::size_t>(request.tool_use)]},
              {"system", Json::array()},
              {"messages", Json::array()},
              {"tools", Json::array()}};
  if (request.temperature) out["temperature"] = *request.temperature;
  if (request.output) out["output"] = {{"name", request.output->name}, {"schema", request.output->schema}};
  for (const PromptPart& part : request.system)
    out["system"].push_back({{"scope", scope_names[static_cast<std::size_t>(part.scope)]}, {"text", part.text}});
  for (const Message& message : request.messages) {
    Json item = {{"speaker", speaker_names[static_cast<std::size_t>(message.speaker)]}, {"text", message.text}};
    if (!message.calls.empty()) item["calls"] = calls_json(message.calls);
    if (!message.call_id.empty()) item["call_id"] = message.call_id;
    out["messages"].push_back(std::move(item));
  }
  for (const Tool& tool : request.tools)
    out["tools"].push_back({{"name", tool.name}, {"description", tool.description}, {"schema", tool.schema}});
  return dump_json(out);
}

std::string outcome_text(const std::vector<CallEvent>& events, const Answer& answer) {
  Json out = {{"events", Json::array()}};
  for (const CallEvent& event : events) {
    out["events"].push_back({{"kind", event_names[static_cast<std::size_t>(event.kind)]},
                             {"label", event.label},
                             {"text", event.text},
                             {"seconds", event.seconds},
                             {"tokens", event.amount.tokens},
                             {"nanodollars", event.amount.nanodollars}});
  }
  if (answer) {
    out["reply"] = reply_json(*answer);
  } else {
    out["error"] = failure_json(answer.error());
  }
  return dump_json(out);
}

Result<CassetteReader::Entry> outcome_from_text(std::string_view text) {
  PLANISH_TRY(const Json json, parse_json(text, "cassette_corrupt", "entry"));
  ObjectReader reader(json, "cassette_corrupt", "outcome");
  CassetteReader::Entry out;
  if (const Json* events = reader.array("events")) {
    for (const Json& item : *events) {
      PLANISH_TRY(auto event, event_from_json(item));
      out.events.push_back(std::move(event));
    }
  }
  const Json* reply = reader.object("reply", ObjectReader::Need::optional);
  const Json* error = reader.object("error", ObjectReader::Need::optional);
  if ((reply == nullptr) == (error == nullptr)) reader.problem("needs `reply` or `error`, and not both");
  PLANISH_CHECK(reader.finish());
  if (reply != nullptr) {
    PLANISH_TRY(out.answer, reply_from_json(*reply));
  } else {
    PLANISH_TRY(auto failure, failure_from_json(*error));
    out.answer = std::unexpected(std::move(failure));
  }
  return out;
}

}  // namespace planish::llm
