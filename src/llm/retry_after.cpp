#include "llm/retry_after.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/json.h"

namespace planish::llm {
namespace {

/// A number at the beginning, which goes.
std::optional<double> leading_number(std::string_view& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (code != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

void skip_spaces(std::string_view& text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
}

/// Durations at the beginning of a text: every number needs a unit but one that stands alone.
std::optional<double> leading_wait(std::string_view& text, bool bare_number) {
  double total = 0;
  bool any = false;
  while (true) {
    std::string_view rest = text;
    skip_spaces(rest);
    const auto value = leading_number(rest);
    if (!value) break;
    skip_spaces(rest);
    std::size_t letters = 0;
    while (letters < rest.size() && std::isalpha(static_cast<unsigned char>(rest[letters])) != 0) ++letters;
    const std::string_view unit = rest.substr(0, letters);
    double scale = 0;
    if (unit == "ms" || unit.starts_with("milli")) {
      scale = 0.001;
    } else if (unit == "s" || unit.starts_with("sec")) {
      scale = 1;
    } else if (unit == "m" || unit.starts_with("min")) {
      scale = 60;
    } else if (unit == "h" || unit.starts_with("hour") || unit == "hr") {
      scale = 3600;
    } else if (unit == "d" || unit == "day" || unit == "days") {
      scale = 86400;
    } else if (!any && bare_number && unit.empty()) {
      text = rest;
      return *value;
    } else {
      break;
    }
    rest.remove_prefix(letters);
    text = rest;
    total += *value * scale;
    any = true;
  }
  if (!any) return std::nullopt;
  return total;
}

/// A number that is a point of time where it is too large to be a duration: seconds or milliseconds since 1970.
double until(double value, double wall_seconds) {
  if (value > 1e11) return value / 1000 - wall_seconds;
  if (value > 1e8) return value - wall_seconds;
  return value;
}

std::optional<double> wait_or_date(std::string_view text, double wall_seconds) {
  if (const auto wait = parse_wait(text)) return until(*wait, wall_seconds);
  if (const auto date = parse_date(text)) return *date - wall_seconds;
  return std::nullopt;
}

std::optional<double> wait_in_message(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* phrase : {"try again in ", "retry after ", "retry in ", "wait "}) {
    const auto at = text.find(phrase);
    if (at == std::string::npos) continue;
    std::string_view rest = std::string_view(text).substr(at + std::strlen(phrase));
    if (const auto wait = leading_wait(rest, false)) return wait;
  }
  return std::nullopt;
}

std::optional<double> wait_in_body(const std::string& body, double wall_seconds) {
  const auto json = parse_json(body, "bad_text", "x");
  if (!json) return wait_in_message(body.substr(0, 4096));
  const Json* error = json->is_array() && !json->empty() ? &json->front() : &*json;
  if (error->is_object() && error->contains("error")) error = &(*error)["error"];
  if (error->is_string()) return wait_in_message(error->get<std::string>());
  if (!error->is_object()) return std::nullopt;
  const auto value = [&](const Json& holder, const char* field) -> std::optional<double> {
    const auto found = holder.find(field);
    if (found == holder.end()) return std::nullopt;
    if (found->is_number()) return until(std::max(0.0, found->get<double>()), wall_seconds);
    if (found->is_string()) return wait_or_date(found->get<std::string>(), wall_seconds);
    return std::nullopt;
  };
  for (const Json* holder : {error, &*json}) {
    if (!holder->is_object()) continue;
    if (const auto ms = value(*holder, "retry_after_ms")) return *ms / 1000;
    for (const char* field : {"retry_after", "retryAfter", "retry_after_seconds", "retryDelay"}) {
      if (const auto wait = value(*holder, field)) return wait;
    }
  }
  if (const auto details = error->find("details"); details != error->end() && details->is_array()) {
    for (const Json& detail : *details) {
      if (!detail.is_object()) continue;
      if (const auto wait = value(detail, "retryDelay")) return wait;
    }
  }
  if (const auto meta = error->find("metadata"); meta != error->end() && meta->is_object()) {
    if (const auto headers = meta->find("headers"); headers != meta->end() && headers->is_object()) {
      for (const char* field : {"Retry-After", "retry-after", "X-RateLimit-Reset", "x-ratelimit-reset"}) {
        if (const auto wait = value(*headers, field)) return wait;
      }
    }
  }
  const auto message = error->find("message");
  return message != error->end() && message->is_string() ? wait_in_message(message->get<std::string>()) : std::nullopt;
}

/// The longest of the resets whose limit is used up; where none says so, the shortest of all.
std::optional<double> wait_in_limits(const HttpReply& reply, double wall_seconds) {
  std::optional<double> used_up, any;
  for (const auto& [name, text] : reply.headers) {
    const auto at = name.find("reset");
    if (at == std::string::npos || name.find("ratelimit") == std::string::npos) continue;
    const auto wait = wait_or_date(text, wall_seconds);
    if (!wait) continue;
    const std::string remaining = std::string(name).replace(at, 5, "remaining");
    const std::string_view left = reply.header(remaining);
    if (left == "0") used_up = std::max(used_up.value_or(0), *wait);
    if (left.empty() || left == "0") any = any ? std::min(*any, *wait) : *wait;
  }
  return used_up ? used_up : any;
}

}  // namespace

std::optional<double> parse_wait(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view rest = lower;
  const auto wait = leading_wait(rest, true);
  skip_spaces(rest);
  return rest.empty() ? wait : std::nullopt;
}

std::optional<double> parse_date(std::string_view text) {
  const std::string owned(text);
  for (const char* form : {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"}) {
    std::tm when{};
    const char* end = ::strptime(owned.c_str(), form, &when);
    if (end != nullptr && *end == '\0') return static_cast<double>(::timegm(&when));
  }
  std::tm when{};
  const char* end = ::strptime(owned.c_str(), "%Y-%m-%dT%H:%M:%S", &when);
  if (end == nullptr) return std::nullopt;
  double seconds = static_cast<double>(::timegm(&when));
  std::string_view rest(end);
  if (rest.starts_with('.')) {
    std::size_t digits = 1;
    while (digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits])) != 0) ++digits;
    rest.remove_prefix(digits);
  }
  if (rest == "Z" || rest == "z") return seconds;
  int hours = 0, minutes = 0;
  if (rest.size() == 6 && (rest[0] == '+' || rest[0] == '-') &&
      std::sscanf(std::string(rest.substr(1)).c_str(), "%2d:%2d", &hours, &minutes) == 2) {
    return seconds + (rest[0] == '-' ? 1 : -1) * (hours * 3600 + minutes * 60);
  }
  return std::nullopt;
}

std::optional<double> retry_after(const HttpReply& reply, double wall_seconds) {
  std::optional<double> wait;
  if (const auto header = reply.header("retry-after-ms"); !header.empty()) {
    if (const auto ms = parse_wait(header)) wait = *ms / 1000;
  }
  if (!wait) {
    if (const auto header = reply.header("retry-after"); !header.empty()) wait = wait_or_date(header, wall_seconds);
  }
  if (!wait) wait = wait_in_body(reply.body, wall_seconds);
  if (!wait) wait = wait_in_limits(reply, wall_seconds);
  if (wait) wait = std::max(0.0, *wait);
  return wait;
}

}  // namespace planish::llm
