#include "llm/http_provider.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "llm/json_schema.h"
#include "llm/sse.h"

namespace planish::llm {
namespace {

/// A refused request may name another parameter each time.
constexpr int most_adaptations = 6;
/// What a provider may add to a prompt (instructions for tools, marks around messages).
constexpr std::int64_t tokens_added = 1024;

/// Tells events from documents by the first byte of the body: servers send either, whatever was asked for, and their
/// content types are not always true.
class BodyReader {
 public:
  explicit BodyReader(AnswerReader& reader) : reader_(reader) {}
  bool feed(std::string_view bytes) {
    if (failure_) return false;
    if (form_ == Form::unknown) {
      held_ += bytes;
      const auto first = held_.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
      if (first == std::string::npos) return true;
      form_ = held_[first] == '{' || held_[first] == '[' || held_[first] == '<' ? Form::document : Form::events;
      if (form_ == Form::document) return true;
      const std::string begun = std::exchange(held_, {}).substr(first);
      return feed_events(begun);
    }
    if (form_ == Form::document) {
      held_ += bytes;
      return true;
    }
    return feed_events(bytes);
  }
  Answer finish() {
    if (failure_) return std::unexpected(std::move(*failure_));
    if (form_ == Form::unknown) return std::unexpected(bad_reply("the answer is empty"));
    if (form_ == Form::document) {
      const auto first = held_.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
      if (held_[first] == '<') return std::unexpected(html_reply(std::string_view(held_).substr(first)));
      if (auto read = reader_.whole(std::string_view(held_).substr(first)); !read)
        return std::unexpected(std::move(read).error());
    }
    return reader_.finish();
  }

 private:
  enum class Form : std::uint8_t { unknown, events, document };
  bool feed_events(std::string_view bytes) {
    for (const ServerEvent& event : events_.feed(bytes)) {
      auto done = reader_.event(event.event, event.data);
      if (!done) failure_ = std::move(done).error();
      if (!done || *done) return false;
    }
    return true;
  }
  AnswerReader& reader_;
  EventReader events_;
  Form form_ = Form::unknown;
  std::string held_;
  std::optional<Failure> failure_;
};

std::string refused_text(const Capabilities& before, const Capabilities& after) {
  if (before.completion_tokens != after.completion_tokens)
    return after.completion_tokens ? "max_completion_tokens in place of max_tokens"
                                   : "max_tokens in place of max_completion_tokens";
  if (before.temperature != after.temperature) return "no temperature";
  if (before.stream_usage != after.stream_usage) return "no stream_options";
  if (before.effort != after.effort) return "no effort";
  if (before.cache_marks != after.cache_marks) return "no cache_control";
  if (before.stream != after.stream) return "no stream";
  return "another form of structured output";
}

}  // namespace

Result<Secret> read_key(const ModelConfig& config, const KeyLookup& lookup) {
  return read_key(config.label, config.key_env, lookup);
}

Result<Secret> read_key(const std::string& label, const std::string& key_env, const KeyLookup& lookup) {
  if (key_env.empty()) return Secret();
  auto value = lookup(key_env);
  if (!value || value->empty())
    return fail("no_model_key", fmt::format("the key of the model {} is missing: {} is not set", label, key_env),
                fmt::format("export {}=… ; servers that need no key get no key_env", key_env));
  const std::string_view text(*value);
  if (std::ranges::any_of(text, [](unsigned char c) { return c <= ' ' || c >= 127; }))
    return fail("bad_model_key",
                fmt::format("{} (the key of the model {}) holds a space, a line break or another character that no "
                            "header can carry",
                            key_env, label),
                "set it again, without quotes and line breaks");
  return Secret(*std::move(value));
}

Amount worst_case(const ModelConfig& config, const ChatRequest& request, std::size_t body_bytes) {
  Usage usage;
  usage.fresh = static_cast<std::int64_t>(body_bytes) + tokens_added;
  usage.output = request.max_output_tokens > 0 ? request.max_output_tokens : config.max_output_tokens;
  Price price = config.price.value_or(Price{});
  price.input = std::max({price.input, price.cached, price.cache_write});
  return {usage.total(), nanodollars(price, usage)};
}

HttpProvider::HttpProvider(ModelConfig config, Secret key, Transport& transport, Ledger& ledger, Clock& clock)
    : config_(std::move(config)),
      key_(std::move(key)),
      transport_(transport),
      ledger_(ledger),
      clock_(clock),
      capabilities_(expected_capabilities(config_)) {}

Capabilities HttpProvider::capabilities() const {
  std::scoped_lock lock(mutex_);
  return capabilities_;
}

HttpLimits limits_of(double timeout_seconds, const Call& call, const Clock& clock) {
  HttpLimits out;
  out.seconds = timeout_seconds;
  if (call.deadline != TimePoint::max())
    out.seconds = std::clamp(std::chrono::duration<double>(call.deadline - clock.now()).count(), 0.0, out.seconds);
  return out;
}

HttpLimits HttpProvider::limits(const Call& call) const {
  HttpLimits out = limits_of(config_.timeout_seconds, call, clock_);
  out.first_byte_seconds = config_.first_byte_seconds;
  out.stall_seconds = config_.stall_seconds;
  return out;
}

Answer HttpProvider::complete(const ChatRequest& request, const Call& call) {
  if (auto good = check(request); !good)
    return std::unexpected(Failure{std::move(good).error(), false, false, false, {}});
  for (int changes = 0;; ++changes) {
    const Capabilities now = capabilities();
    std::string refusal;
    auto answer = attempt(request, now, call, refusal);
    if (answer || refusal.empty() || changes >= most_adaptations) return answer;
    const auto next = learned(now, config_, refusal);
    if (!next) return answer;
    {
      std::scoped_lock lock(mutex_);
      // Another thread may have learned something else meanwhile, which the next refusal would tell again.
      if (capabilities_ == now) capabilities_ = *next;
    }
    call.tell({CallEvent::Kind::adapted, config_.label, refused_text(now, *next), 0, {}});
  }
}

Answer HttpProvider::attempt(const ChatRequest& request, const Capabilities& capabilities, const Call& call,
                             std::string& refusal) {
  const Wire& wire = wire_of(config_.wire);
  HttpRequest http = wire.request(request, config_, capabilities);
  const HttpLimits bounds = limits(call);
  if (bounds.seconds <= 0) {
    return std::unexpected(
        Failure{{"model_timeout", fmt::format("{}: the time was over before it was asked", config_.label), {}, {}},
                false,
                false,
                false,
                {}});
  }
  const Amount most = worst_case(config_, request, http.body.size());
  auto reservation = ledger_.reserve(most, bounds.seconds, call.cancel);
  if (!reservation) return std::unexpected(Failure{std::move(reservation).error(), false, false, false, {}});
  wire.authorise(http, key_);
  const auto reader = wire.reader();
  BodyReader body(*reader);
  const TimePoint start = clock_.now();
  auto reply = transport_.send(http, bounds, call.cancel, [&](std::string_view bytes) { return body.feed(bytes); });
  Answer answer;
  if (!reply) {
    answer = std::unexpected(transport_failure(std::move(reply).error()));
  } else if (reply->status < 200 || reply->status >= 300) {
    answer = std::unexpected(status_failure(*reply, config_.label, clock_.wall_seconds()));
    // Not of a prompt that is too long: servers speak of all limits there.
    if (answer.error().error.kind == "model_rejected") refusal = reply->body;
  } else {
    answer = body.finish();
  }
  if (!answer) {
    // What a server refused cost nothing; of what broke off nobody knows.
    const Amount spent = answer.error().billed ? most : Amount{};
    reservation->settle(spent);
    if (spent.tokens > 0) call.tell({CallEvent::Kind::charged, config_.label, "", 0, spent});
    return std::unexpected(redacted(std::move(answer).error(), key_));
  }
  const Amount spent = answer->usage.known
                           ? Amount{answer->usage.total(), nanodollars(config_.price.value_or(Price{}), answer->usage)}
                           : most;
  reservation->settle(spent);
  call.tell({CallEvent::Kind::charged, config_.label, "", 0, spent});
  answer->nanodollars = spent.nanodollars;
  answer->label = config_.label;
  answer->seconds = std::chrono::duration<double>(clock_.now() - start).count();
  finish_reply(request, capabilities, *answer);
  return answer;
}

void HttpProvider::finish_reply(const ChatRequest& request, const Capabilities& capabilities, ChatReply& reply) const {
  reply.text = redact(reply.text, key_);
  reply.model = redact(reply.model, key_);
  for (ToolCall& tool : reply.calls) {
    tool.id = redact(tool.id, key_);
    tool.name = redact(tool.name, key_);
    tool.arguments = redact(tool.arguments, key_);
  }
  if (!request.output) return;
  std::string text = reply.text;
  if (capabilities.structured == Structured::tool) {
    const auto found = std::ranges::find(reply.calls, request.output->name, &ToolCall::name);
    if (found != reply.calls.end()) {
      text = found->arguments;
      reply.calls.erase(found);
      if (reply.stop == Stop::tool_calls && reply.calls.empty()) reply.stop = Stop::finished;
    }
  } else if (text.empty() && !reply.calls.empty()) {
    return;  // it asks a tool first
  }
  SchemaAnswer read = read_schema_answer(text, request.output->schema);
  reply.json = redact(read.json, key_);
  reply.json_problem = redact(read.problem, key_);
}

std::expected<std::vector<std::string>, Failure> HttpProvider::list(const Call& call) {
  const Wire& wire = wire_of(config_.wire);
  HttpRequest http = wire.list(config_);
  wire.authorise(http, key_);
  HttpLimits bounds = limits(call);
  bounds.seconds = std::min(bounds.seconds, 30.0);
  auto reply = transport_.send(http, bounds, call.cancel, {});
  if (!reply) return std::unexpected(redacted(transport_failure(std::move(reply).error()), key_));
  if (reply->status < 200 || reply->status >= 300)
    return std::unexpected(redacted(status_failure(*reply, config_.label, clock_.wall_seconds()), key_));
  const auto json = parse_json(reply->body, "model_bad_reply", "the list of models");
  if (!json)
    return std::unexpected(
        redacted(bad_reply(json.error().message, "base_url may lead to a web page; APIs often begin with /v1"), key_));
  const Json* data = json->is_object() && json->contains("data") ? &(*json)["data"] : &*json;
  if (!data->is_array()) return std::unexpected(bad_reply("the list of models is no list"));
  std::vector<std::string> names;
  for (const Json& item : *data) {
    if (item.is_object() && item.contains("id") && item["id"].is_string())
      names.push_back(redact(item["id"].get<std::string>(), key_));
  }
  return names;
}

}  // namespace planish::llm
