#pragma once

// Include from .cpp files only (base/json.h). JSON-RPC 2.0 as the Model Context Protocol uses it: one message a line.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace planish::mcp {

/// Codes of JSON-RPC, and the one that the protocol adds.
namespace code {
inline constexpr int parse_error = -32700;
inline constexpr int invalid_request = -32600;
inline constexpr int method_not_found = -32601;
inline constexpr int invalid_params = -32602;
inline constexpr int internal_error = -32603;
inline constexpr int resource_not_found = -32002;
}  // namespace code

/// What is wrong with a request itself. What is wrong with what a tool was asked to do is a result of the tool.
struct ProtocolError {
  int code = code::internal_error;
  std::string message;
  Json data;  ///< null: none
};

/// A request, or a notification where there is no id.
struct Request {
  Json id;  ///< text or integer; null in a notification
  std::string method;
  Json params = Json::object();
  bool is_notification() const { return id.is_null(); }
};

/// A line that was read: requests and notifications in order, and answers to what cannot be one. Answers of the other
/// side to requests are left out: we ask nothing.
struct Incoming {
  std::vector<Request> requests;
  std::vector<Json> refusals;  ///< error responses
  bool batch = false;          ///< it was an array: so is the answer to it
};

/// Never fails: what is wrong with the line becomes refusals. `batches`: whether an array of messages is allowed.
Incoming read_message(std::string_view line, bool batches);

Json response(const Json& id, Json result);
Json error_response(const Json& id, const ProtocolError& error);
Json notification(std::string_view method, Json params);

}  // namespace planish::mcp
