#include "llm/failure.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "llm/retry_after.h"

namespace planish::llm {
namespace {

/// What a server wrote, as one short line of printable characters.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < ' ' || c == 127;
    if (control && (out.empty() || out.back() == ' ')) continue;
    out += control ? ' ' : c;
    if (out.size() >= 400) {
      out += "…";
      break;
    }
  }
  return out;
}

bool has_any(std::string text, std::initializer_list<const char*> words) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(words, [&](const char* word) { return text.find(word) != std::string::npos; });
}

}  // namespace

Failure transport_failure(Error error) {
  Failure out;
  out.retry = error.kind == "model_unreachable" || error.kind == "model_stalled" || error.kind == "model_cut";
  out.elsewhere = out.retry || error.kind == "model_timeout" || error.kind == "model_too_long";
  out.billed = error.kind != "model_unreachable" && error.kind != "no_libcurl";
  out.error = std::move(error);
  return out;
}

Failure bad_reply(std::string what, std::string hint) {
  return {{"model_bad_reply", one_line(what), {}, std::move(hint)}, true, true, true, std::nullopt};
}

Failure html_reply(std::string_view body) {
  return bad_reply(fmt::format("HTML came instead of JSON: {}", body.substr(0, 120)),
                   "base_url leads to a web page; APIs often begin with /v1");
}

Failure redacted(Failure failure, const Secret& key) {
  failure.error.message = redact(failure.error.message, key);
  failure.error.hint = redact(failure.error.hint, key);
  for (std::string& cause : failure.error.causes) cause = redact(cause, key);
  return failure;
}

Failure error_failure(int status, const std::string& type, const std::string& message, const std::string& place) {
  Failure out;
  Error& error = out.error;
  const std::string words = type + " " + message;
  const std::string said = one_line(message.empty() ? type : message);
  if (status == 402 ||
      has_any(words, {"insufficient_quota", "exceeded your current quota", "credit balance", "billing_error",
                      "billing_hard_limit", "insufficient credits", "insufficient_balance"})) {
    error = {"model_quota",
             fmt::format("{}: the account's quota or credit is used up", place),
             {said},
             "waiting does not help; look at the provider's billing page"};
    out.elsewhere = true;
  } else if (status == 401 || status == 403 || has_any(type, {"authentication_error", "permission_error"})) {
    error = {"model_unauthorized",
             fmt::format("{}: the key was refused", place),
             {said},
             "is the variable of key_env set, and the key of this provider?"};
    out.elsewhere = true;
  } else if (status == 404 || has_any(words, {"not_found", "invalid model name", "unknown model"})) {
    error = {"model_unknown",
             fmt::format("{}: there is no such model or path", place),
             {said},
             "look at `name` and `base_url`; planish doctor --models lists what the server has"};
    out.elsewhere = true;
  } else if (status == 413 || has_any(words, {"context_length_exceeded", "context length", "context window",
                                              "prompt is too long", "request_too_large"})) {
    error = {"model_context", fmt::format("{}: the prompt is too long for this model", place), {said}, {}};
    out.elsewhere = true;
  } else if (status == 429 || has_any(type, {"rate_limit"})) {
    error = {"model_rate_limited",
             fmt::format("{}: asked more often than the server allows", place),
             {said},
             "lower `parallel` of this model"};
    out.retry = out.elsewhere = true;
  } else if (status >= 500 || status == 408 || status == 409 || status == 425 ||
             has_any(type, {"overloaded", "api_error", "server_error", "timeout_error"})) {
    error = {"model_overloaded", fmt::format("{}: the server failed or is overloaded", place), {said}, {}};
    out.retry = out.elsewhere = true;
  } else if (status >= 300 && status < 400) {
    error = {"model_rejected",
             fmt::format("{}: the server answers with a redirect, which is not followed", place),
             {said},
             "base_url must be the address that answers, with its path (often /v1)"};
    out.elsewhere = true;
  } else {
    error = {"model_rejected", fmt::format("{}: the server refused the request", place), {said}, {}};
  }
  if (status > 0) error.message += fmt::format(" (HTTP {})", status);
  return out;
}

Failure status_failure(const HttpReply& reply, const std::string& place, double wall_seconds) {
  std::string type, message;
  if (const auto json = parse_json(reply.body, "bad_text", "x"); json) {
    const Json* error = json->is_array() && !json->empty() ? &json->front() : &*json;
    if (error->is_object() && error->contains("error")) error = &(*error)["error"];
    const auto text = [&](const char* field) {
      const auto found = error->find(field);
      return found != error->end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    if (error->is_string()) {
      message = error->get<std::string>();
    } else if (error->is_object()) {
      type = text("type") + " " + text("code") + " " + text("status");
      message = text("message");
      if (message.empty()) message = text("detail");
    }
    if (message.empty()) message = dump_json(*json);
  } else {
    message = reply.body;
  }
  Failure out = error_failure(reply.status, type, message, place);
  if (out.retry) out.wait_seconds = retry_after(reply, wall_seconds);
  return out;
}

}  // namespace planish::llm
