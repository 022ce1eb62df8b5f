#include "mcp/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "mcp/lines.h"
#include "mcp/message.h"

namespace planish::mcp {
namespace {

constexpr std::array<std::string_view, 4> versions = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
/// The one version that has arrays of messages.
constexpr std::string_view with_batches = "2025-03-26";
/// Between two messages of progress of one call.
constexpr double progress_seconds = 0.1;

Json tool_json(const Tool& tool) {
  return {{"name", tool.name},
          {"title", tool.title},
          {"description", tool.description},
          {"inputSchema", schema_of(tool.arguments)},
          {"annotations", {{"readOnlyHint", tool.read_only}, {"openWorldHint", false}}}};
}

Json resource_json(const Resource& resource, const char* uri) {
  return {{uri, resource.uri},
          {"name", resource.name},
          {"description", resource.description},
          {"mimeType", resource.mime_type}};
}

Json text_block(std::string text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

Json failed_call(const Error& error) {
  std::string text = fmt::format("error: {}\n", error.message);
  for (const std::string& cause : error.causes) text += fmt::format("caused by: {}\n", cause);
  if (!error.hint.empty()) text += fmt::format("hint: {}\n", error.hint);
  return {
      {"content", Json::array({text_block(std::move(text))})},
      {"structuredContent",
       {{"error", {{"kind", error.kind}, {"message", error.message}, {"hint", error.hint}, {"causes", error.causes}}}}},
      {"isError", true}};
}

Json answered_call(const Answer& answer) {
  Json content = Json::array();
  if (!answer.text.empty()) content.push_back(text_block(answer.text));
  // For clients that know no structured content.
  content.push_back(text_block(dump_json(answer.document)));
  return {{"content", std::move(content)}, {"structuredContent", answer.document}, {"isError", false}};
}

/// The answers to an array of messages, sent as one when the last is there.
struct Batch {
  std::mutex mutex;
  std::size_t left = 0;
  Json answers = Json::array();
};

}  // namespace

std::string negotiate(std::string_view asked) {
  return std::string(std::ranges::find(versions, asked) != versions.end() ? asked : versions.front());
}

struct Server::State {
  /// A request that is being answered in a thread.
  struct Running {
    CancelToken cancel;
    std::thread thread;
    bool ended = false;
  };

  ServerOptions options;
  std::vector<Tool> tools;
  Resources resources;
  std::unique_ptr<LineWriter> out;

  std::mutex mutex;  ///< of all that follows
  std::string version;
  std::map<std::string, Running> running;  ///< by id, as JSON text

  void send(const Json& message) { out->write(dump_json(message)); }

  /// The answer to one request; nothing to a notification, and to a call that was cancelled.
  void answer(const std::shared_ptr<Batch>& batch, std::optional<Json> message) {
    if (batch == nullptr) {
      if (message) send(*message);
      return;
    }
    const std::scoped_lock lock(batch->mutex);
    if (message) batch->answers.push_back(std::move(*message));
    if (--batch->left == 0 && !batch->answers.empty()) send(batch->answers);
  }

  void take(std::string_view line) {
    bool batches = false;
    {
      const std::scoped_lock lock(mutex);
      batches = version == with_batches;
    }
    Incoming incoming = read_message(line, batches);
    std::shared_ptr<Batch> batch;
    if (incoming.batch) {
      batch = std::make_shared<Batch>();
      batch->left = incoming.requests.size() + incoming.refusals.size();
    }
    for (Json& refusal : incoming.refusals) answer(batch, std::move(refusal));
    for (Request& request : incoming.requests) dispatch(std::move(request), batch);
  }

  void dispatch(Request request, const std::shared_ptr<Batch>& batch) {
    if (request.is_notification()) {
      if (request.method == "notifications/cancelled") cancel(request.params);
      return answer(batch, std::nullopt);  // others ask for nothing
    }
    if (request.method == "tools/call" || request.method == "resources/read" || request.method == "resources/list") {
      if (auto refused = start(request, batch)) answer(batch, error_response(request.id, *refused));
      return;
    }
    auto result = quick(request);
    answer(batch, result ? response(request.id, std::move(*result)) : error_response(request.id, result.error()));
  }

  using Outcome = std::expected<Json, ProtocolError>;

  /// What is answered at once.
  Outcome quick(const Request& request) {
    if (request.method == "ping") return Json::object();
    if (request.method == "initialize") return initialize(request.params);
    const bool known = request.method == "tools/list" || request.method == "resources/templates/list";
    if (!known) {
      return std::unexpected(
          ProtocolError{code::method_not_found, fmt::format("there is no method {}", request.method), {}});
    }
    if (auto refused = not_yet()) return std::unexpected(*refused);
    if (auto refused = one_page(request.params)) return std::unexpected(*refused);
    if (request.method == "tools/list") {
      Json list = Json::array();
      for (const Tool& tool : tools) list.push_back(tool_json(tool));
      return Json{{"tools", std::move(list)}};
    }
    Json list = Json::array();
    for (const Resource& one : resources.templates) list.push_back(resource_json(one, "uriTemplate"));
    return Json{{"resourceTemplates", std::move(list)}};
  }

  Outcome initialize(const Json& params) {
    const auto asked = params.find("protocolVersion");
    if (asked == params.end() || !asked->is_string())
      return std::unexpected(ProtocolError{code::invalid_params, "protocolVersion must be a text", {}});
    const std::scoped_lock lock(mutex);
    if (!version.empty())
      return std::unexpected(ProtocolError{code::invalid_request, "the session is initialized already", {}});
    version = negotiate(asked->get<std::string>());
    return Json{{"protocolVersion", version},
                {"capabilities", {{"tools", Json::object()}, {"resources", Json::object()}}},
                {"serverInfo", {{"name", options.name}, {"title", options.title}, {"version", options.version}}},
                {"instructions", options.instructions}};
  }

  std::optional<ProtocolError> not_yet() {
    const std::scoped_lock lock(mutex);
    if (!version.empty()) return std::nullopt;
    return ProtocolError{code::invalid_request, "initialize comes first", {}};
  }

  /// Lists are given whole.
  static std::optional<ProtocolError> one_page(const Json& params) {
    if (!params.contains("cursor") || params["cursor"].is_null()) return std::nullopt;
    return ProtocolError{code::invalid_params, "there is no such page", {}};
  }

  /// Begins what may take its time; an error where that is not to be.
  std::optional<ProtocolError> start(const Request& request, const std::shared_ptr<Batch>& batch) {
    if (auto refused = not_yet()) return refused;
    const Tool* tool = nullptr;
    std::string uri;
    Json arguments = Json::object();
    if (request.method == "tools/call") {
      const auto name = request.params.find("name");
      if (name == request.params.end() || !name->is_string())
        return ProtocolError{code::invalid_params, "name must be a text", {}};
      const auto found = std::ranges::find(tools, name->get<std::string>(), &Tool::name);
      if (found == tools.end())
        return ProtocolError{code::invalid_params, fmt::format("Unknown tool: {}", name->get<std::string>()), {}};
      tool = &*found;
      if (const auto given = request.params.find("arguments"); given != request.params.end() && !given->is_null()) {
        if (!given->is_object()) return ProtocolError{code::invalid_params, "arguments must be an object", {}};
        // A null is an argument that was not given.
        for (const auto& [argument, value] : given->items()) {
          if (!value.is_null()) arguments[argument] = value;
        }
      }
    } else if (request.method == "resources/read") {
      const auto given = request.params.find("uri");
      if (given == request.params.end() || !given->is_string())
        return ProtocolError{code::invalid_params, "uri must be a text", {}};
      uri = given->get<std::string>();
    } else if (auto refused = one_page(request.params)) {
      return refused;
    }
    const std::scoped_lock lock(mutex);
    reap();
    const std::string key = dump_json(request.id);
    if (running.contains(key))
      return ProtocolError{code::invalid_request, "a request of that id is being answered", {}};
    if (running.size() >= options.most_calls) {
      return ProtocolError{code::internal_error,
                           fmt::format("{} calls are being answered already; wait for one of them", running.size()),
                           {}};
    }
    Running& one = running[key];
    const CancelToken cancelled = one.cancel;
    one.thread = std::thread([this, request, batch, tool, uri, arguments, cancelled, key] {
      std::optional<Json> message;
      if (tool != nullptr) {
        message = call(*tool, arguments, request, cancelled);
      } else if (!uri.empty()) {
        message = read(uri, request.id);
      } else {
        message = list(request.id);
      }
      const bool wanted = !cancelled.cancelled();
      {
        // Before the answer: whoever has it may use the id again.
        const std::scoped_lock done(mutex);
        running[key].ended = true;
      }
      answer(batch, wanted ? std::move(message) : std::nullopt);
    });
    return std::nullopt;
  }

  std::optional<Json> call(const Tool& tool, const Json& arguments, const Request& request,
                           const CancelToken& cancelled) {
    if (std::string wrong = check_arguments(tool.arguments, arguments); !wrong.empty())
      return response(request.id, failed_call({"bad_argument", std::move(wrong), {}, {}}));
    const auto listener = progress_of(request.params, cancelled);
    const auto result = tool.run(arguments, {cancelled, [listener](std::string_view text) { listener->tell(text); }});
    listener->end();
    if (!result && result.error().kind == "cancelled") return std::nullopt;
    return response(request.id, result ? answered_call(*result) : failed_call(result.error()));
  }

  std::optional<Json> read(const std::string& uri, const Json& id) const {
    const auto found = resources.read(uri);
    if (!found) return error_response(id, {code::internal_error, found.error().message, {}});
    if (!*found) return error_response(id, {code::resource_not_found, "Resource not found", {{"uri", uri}}});
    return response(
        id, {{"contents", Json::array({{{"uri", uri}, {"mimeType", (*found)->mime_type}, {"text", (*found)->text}}})}});
  }

  std::optional<Json> list(const Json& id) const {
    const auto found = resources.list();
    if (!found) return error_response(id, {code::internal_error, found.error().message, {}});
    Json all = Json::array();
    for (const Resource& one : *found) all.push_back(resource_json(one, "uri"));
    return response(id, {{"resources", std::move(all)}});
  }

  /// Who hears of a call's progress.
  struct Listener {
    State& state;
    Json token;  ///< null: nobody
    CancelToken cancelled;
    std::mutex mutex;
    bool over = false;
    std::int64_t count = 0;
    TimePoint next{};
    std::string last{};

    void tell(std::string_view text) {
      const std::scoped_lock lock(mutex);
      if (text.empty() || over || token.is_null() || cancelled.cancelled() || real_clock().now() < next) return;
      if (text == last) return;
      last = text;
      next = deadline_in(progress_seconds);
      state.send(notification("notifications/progress",
                              {{"progressToken", token}, {"progress", ++count}, {"message", std::string(text)}}));
    }
    /// None comes after the answer.
    void end() {
      const std::scoped_lock lock(mutex);
      over = true;
    }
  };

  std::shared_ptr<Listener> progress_of(const Json& params, const CancelToken& cancelled) {
    Json token;
    if (const auto meta = params.find("_meta"); meta != params.end() && meta->is_object()) {
      const Json given = meta->value("progressToken", Json());
      if (given.is_string() || given.is_number_integer()) token = given;
    }
    auto listener = std::make_shared<Listener>(*this);
    listener->token = std::move(token);
    listener->cancelled = cancelled;
    return listener;
  }

  void cancel(const Json& params) {
    const auto id = params.find("requestId");
    if (id == params.end()) return;
    const std::scoped_lock lock(mutex);
    if (const auto found = running.find(dump_json(*id)); found != running.end()) found->second.cancel.cancel();
  }

  /// Forgets those that ended. With the mutex.
  void reap() {
    for (auto one = running.begin(); one != running.end();) {
      if (!one->second.ended) {
        ++one;
        continue;
      }
      one->second.thread.join();
      one = running.erase(one);
    }
  }

  void end() {
    std::unique_lock lock(mutex);
    for (const auto& [key, one] : running) one.cancel.cancel();
    lock.unlock();  // threads take it when they end; nobody else adds any
    for (auto& [key, one] : running) one.thread.join();
  }
};

Server::Server(ServerOptions options, std::vector<Tool> tools, Resources resources)
    : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->tools = std::move(tools);
  state_->resources = std::move(resources);
}
Server::~Server() = default;

void Server::serve(int in, int out, const CancelToken& stop) {
  state_->out = std::make_unique<LineWriter>(out, state_->options.write_seconds);
  LineReader reader(in, state_->options.line_bytes);
  while (!state_->out->gone()) {
    const auto line = reader.next(stop);
    if (!line) break;
    if (line->too_long) {
      state_->send(error_response(
          nullptr,
          {code::parse_error, fmt::format("a message is at most {} bytes long", state_->options.line_bytes), {}}));
      continue;
    }
    if (line->text.find_first_not_of(" \t\r") == std::string::npos) continue;
    state_->take(line->text);
  }
  state_->end();
}

}  // namespace planish::mcp
