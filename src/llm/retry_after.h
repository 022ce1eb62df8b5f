#pragma once

#include <optional>
#include <string_view>

#include "llm/transport.h"

namespace planish::llm {

/// "1.5", "20ms", "6m0s", "1h2m3.5s", "2 seconds" as seconds.
std::optional<double> parse_wait(std::string_view text);
/// "Sun, 06 Nov 1994 08:49:37 GMT" (and the two older forms of HTTP) or "2026-11-22T10:00:00Z" as seconds since 1970.
std::optional<double> parse_date(std::string_view text);

/// How long the server asks to wait, in seconds from `wall_seconds`: `retry-after-ms`, `retry-after` (seconds,
/// duration, date), what the body says (`retryDelay`, `retry_after`, "try again in 1.2s"), `x-ratelimit-reset-*`,
/// `anthropic-ratelimit-*-reset` and `ratelimit-reset` of limits that are used up. Never negative.
std::optional<double> retry_after(const HttpReply& reply, double wall_seconds);

}  // namespace planish::llm
