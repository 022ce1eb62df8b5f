#include "mcp/message.h"

#include <utility>

namespace planish::mcp {
namespace {

bool is_id(const Json& id) {
  return id.is_string() || id.is_number_integer();
}

/// The id to answer to where there is one that can be read.
Json id_of(const Json& message) {
  if (!message.is_object()) return nullptr;
  const auto found = message.find("id");
  return found != message.end() && is_id(*found) ? *found : Json();
}

void read_one(const Json& message, Incoming& out) {
  const auto refuse = [&](std::string why) {
    out.refusals.push_back(error_response(id_of(message), {code::invalid_request, std::move(why), {}}));
  };
  if (!message.is_object()) return refuse("a message is an object");
  if (message.value("jsonrpc", Json()) != "2.0") return refuse("the field jsonrpc must be \"2.0\"");
  const auto id = message.find("id");
  const auto method = message.find("method");
  if (method == message.end()) {
    if (message.contains("result") || message.contains("error")) return;  // an answer: nothing was asked
    return refuse("it has neither a method nor a result");
  }
  if (!method->is_string()) return refuse("the field method must be a text");
  if (id != message.end() && !is_id(*id)) return refuse("the field id must be a text or an integer");
  Request request;
  if (id != message.end()) request.id = *id;
  request.method = method->get<std::string>();
  if (const auto params = message.find("params"); params != message.end()) {
    if (!params->is_object()) {
      if (request.is_notification()) return;  // those are never answered
      out.refusals.push_back(
          error_response(request.id, {code::invalid_params, "the field params must be an object", {}}));
      return;
    }
    request.params = *params;
  }
  out.requests.push_back(std::move(request));
}

}  // namespace

Incoming read_message(std::string_view line, bool batches) {
  Incoming out;
  const auto parsed = parse_json(line, "bad_message", "message");
  if (!parsed) {
    out.refusals.push_back(error_response(nullptr, {code::parse_error, parsed.error().message, {}}));
    return out;
  }
  if (!parsed->is_array()) {
    read_one(*parsed, out);
    return out;
  }
  if (!batches || parsed->empty()) {
    out.refusals.push_back(error_response(
        nullptr,
        {code::invalid_request, batches ? "the batch is empty" : "this version of the protocol has no batches", {}}));
    return out;
  }
  out.batch = true;
  for (const Json& message : *parsed) read_one(message, out);
  return out;
}

Json response(const Json& id, Json result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

Json error_response(const Json& id, const ProtocolError& error) {
  Json body = {{"code", error.code}, {"message", error.message}};
  if (!error.data.is_null()) body["data"] = error.data;
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(body)}};
}

Json notification(std::string_view method, Json params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

}  // namespace planish::mcp
