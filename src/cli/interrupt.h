#pragma once

#include "base/cancel.h"

namespace planish::cli {

/// The first Ctrl-C (or SIGTERM) cancels the token: the command ends cleanly with what it has. The second ends the
/// process at once with exit code 130; its children die with it, and everything measured is in the store. Calling
/// it again does no harm. From the main thread.
CancelToken watch_interrupts();

/// Another token, which the first Ctrl-C cancels too if it comes while calls end: what is under way then ends, because
/// waiting for it gains nothing, and the line that answers says so. From the main thread.
CancelToken watch_last_calls(bool end);

}  // namespace planish::cli
