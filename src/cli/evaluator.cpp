#include "cli/evaluator.h"

#include <fmt/core.h>

#include <csignal>
#include <cstdio>

#include "evaluate/server.h"
#include "evaluate/session.h"
#include "worker/toolbox.h"

namespace planish::cli {

int run_evaluator(const std::vector<std::string>& arguments) {
  ServeOptions options;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--socket") options.socket = arguments[i + 1];
  }
  if (options.socket.empty() || arguments.size() % 2 != 0) {
    fmt::print(stderr, "error: usage: planish evaluator --socket PATH\n");
    return 2;
  }
  // Ctrl-C goes to the command, which decides what to do with what it has; it takes us along by going away.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  EvaluatorSession session(worker::Toolbox::resolve());
  if (auto served = serve_evaluator(session, options); !served.has_value()) {
    fmt::print(stderr, "error: {}\n", served.error().message);
    return 2;
  }
  return 0;
}

}  // namespace planish::cli
