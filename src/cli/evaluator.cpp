#include "cli/evaluator.h"

#include <fmt/core.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "evaluate/server.h"
#include "evaluate/session.h"
#include "worker/toolbox.h"

namespace planish::cli {

int run_evaluator(const std::vector<std::string>& arguments) {
  ServeOptions options;
  Limits limits;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--socket") options.socket = arguments[i + 1];
    if (arguments[i] == "--idle") options.idle_seconds = std::strtod(arguments[i + 1].c_str(), nullptr);
    if (arguments[i] == "--ready") limits.stay_ready = arguments[i + 1] == "1";
    if (arguments[i] == "--keep-tasks") limits.kept_tasks = std::strtoul(arguments[i + 1].c_str(), nullptr, 10);
    if (arguments[i] == "--task-timeout") limits.open = std::strtod(arguments[i + 1].c_str(), nullptr);
    if (arguments[i] == "--run-timeout") limits.run = std::strtod(arguments[i + 1].c_str(), nullptr);
  }
  if (options.idle_seconds > 0) options.first_client_seconds = options.idle_seconds;
  if (options.socket.empty() || !(limits.open > 0) || !(limits.run > 0) || arguments.size() % 2 != 0) {
    fmt::print(stderr,
               "error: usage: planish evaluator --socket PATH [--task-timeout SECONDS] [--run-timeout SECONDS] [--idle "
               "SECONDS] [--ready 1] "
               "[--keep-tasks N]\n");
    return 2;
  }
  // Verdicts are made here: no process of this user may look into this one or change it.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Ctrl-C goes to the command, which decides what to do with what it has; it takes us along by going away.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  EvaluatorSession session(worker::Toolbox::resolve(), limits);
  if (auto served = serve_evaluator(session, options); !served.has_value()) {
    fmt::print(stderr, "error: {}\n", served.error().message);
    return 2;
  }
  return 0;
}

}  // namespace planish::cli
