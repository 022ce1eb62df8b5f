#pragma once

#include "base/error_kind.h"

namespace planish::cli {

/// What the shell sees.
namespace exit_code {
inline constexpr int success = 0;      ///< a verified improvement, or plain success
inline constexpr int none_found = 1;   ///< finished, but found none; or verification failed
inline constexpr int usage = 2;        ///< usage, configuration, the task's fault, or our own
inline constexpr int environment = 3;  ///< something is missing here; `doctor` says what
inline constexpr int interrupted = 130;
}  // namespace exit_code

/// The exit code for an error kind: 3 for what another machine, package or disk would cure, 2 for all else.
int exit_code_for(ErrorKind kind);

}  // namespace planish::cli
