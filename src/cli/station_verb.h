#pragma once

#include <string>
#include <vector>

namespace planish::cli {

/// The hidden verb `planish station [--keep-tasks N] [--task-timeout SECONDS]`: a station whose commands come over the
/// socket that is its stdin, one JSON line each: `{"arguments", "seconds"}`. Each is answered by one line:
/// `{"document", "code", "signal"}`, or `{"error": {"kind", "message", "hint"}}`. Ends when the socket closes, with
/// what it does then, and dies with its parent.
int run_station(const std::vector<std::string>& arguments);

}  // namespace planish::cli
