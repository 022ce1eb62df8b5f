#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/terminal.h"
#include "cli/exit_code.h"

namespace planish::cli {
namespace {

std::atomic<int> interrupts{0};
/// Truth of "calls under way end with the first one".
std::atomic<bool> calls_end{false};

const CancelToken& token() {
  static const CancelToken the_token;
  return the_token;
}
const CancelToken& last_calls() {
  static const CancelToken the_token;
  return the_token;
}

/// Only async-signal-safe calls.
void on_signal(int) {
  if (interrupts.fetch_add(1) > 0) {
    write_over_live_lines("");
    ::_exit(exit_code::interrupted);
  }
  token().cancel();
  if (calls_end) {
    last_calls().cancel();
    write_over_live_lines("interrupted: ending with what is proved by now; once more ends at once\n");
  } else {
    write_over_live_lines("interrupted: ending with what was found; once more ends at once\n");
  }
}

}  // namespace

CancelToken watch_interrupts() {
  struct sigaction action{};
  (void)token();  // made before a signal can ask for it
  (void)last_calls();
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return token();
}

CancelToken watch_last_calls(bool end) {
  calls_end = end;
  return last_calls();
}

}  // namespace planish::cli
