// planish-runner: executes programs that others wrote, for a parent that trusts nothing it says. Speaks
// docs/formats/wire.md on descriptor 3.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "channel.h"
#include "fault.h"
#include "guest.h"
#include "guest_environment.h"
#include "limits.h"
#include "planish_target.h"
#include "sandbox.h"
#include "session.h"

extern char** environ;

namespace {

constexpr int inherited_socket = 3;

struct Options {
  std::string device = "cpu";
  std::uint64_t max_rss = 0;
  bool no_network = false, sandbox = false;
  std::vector<std::string> readable;
  std::string scratch;
};

constexpr const char* usage =
    "error: usage: planish-runner [--device cpu|cuda[:n]] [--max-rss BYTES] [--no-network]\n"
    "                             [--sandbox [--readable FOLDER]... [--scratch FOLDER]]\n"
    "       planish-runner --guest ... -- COMMAND (a process of its own for a program nobody trusts)\n"
    "       planish-runner --capture -- COMMAND (the command, with the environment that tasks are captured in)\n";

bool parse(int argc, char** argv, Options* out) {
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--no-network") {
      out->no_network = true;
    } else if (option == "--sandbox") {
      out->sandbox = true;
    } else if (option == "--readable" && i + 1 < argc) {
      out->readable.emplace_back(argv[++i]);
    } else if (option == "--scratch" && i + 1 < argc) {
      out->scratch = argv[++i];
    } else if (option == "--device" && i + 1 < argc) {
      out->device = argv[++i];
      if (!planish::rt::find_place(out->device)) return false;
    } else if (option == "--max-rss" && i + 1 < argc) {
      char* end = nullptr;
      out->max_rss = std::strtoull(argv[++i], &end, 10);
      if (*end != '\0' || out->max_rss == 0) return false;
    } else {
      return false;
    }
  }
  // Alone they would promise what nothing enforces.
  return out->sandbox || (out->readable.empty() && out->scratch.empty());
}

/// Becomes the command.
int run_capture(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[0], "--") != 0) {
    std::fputs(usage, stderr);
    return 2;
  }
  std::vector<std::string> environment = planish::runner::capture_environment(environ);
  std::vector<char*> entries;
  for (std::string& entry : environment) entries.push_back(entry.data());
  entries.push_back(nullptr);
  execvpe(argv[1], argv + 1, entries.data());
  std::fprintf(stderr, "cannot start %s: %s\n", argv[1], std::strerror(errno));
  return 127;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace planish::runner;
  if (argc > 1 && std::strcmp(argv[1], "--guest") == 0) return run_guest(argc - 2, argv + 2);
  if (argc > 1 && std::strcmp(argv[1], "--capture") == 0) return run_capture(argc - 2, argv + 2);
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fputs(usage, stderr);
    return 2;
  }
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(inherited_socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) {
    std::fputs("error: descriptor 3 is no stream socket\nhint: planish starts this program itself\n", stderr);
    return 2;
  }
  const bool no_network = options.no_network && leave_network();
  install_fault_handler(inherited_socket);
  nlohmann::json sandbox = nlohmann::json::object();
  // After the change of credentials, which may clear it; before the sandbox, where guests must not take it back.
  const bool parent_death_signal = die_with_parent();
  if (options.sandbox) {
    const auto place = planish::rt::find_place(options.device);
    sandbox = enter_sandbox({place && !place->target->on_host, options.readable, options.scratch});
  }
  sandbox["no_network"] = no_network;
  sandbox["parent_death_signal"] = parent_death_signal;
  sandbox["max_rss"] = options.max_rss > 0 && watch_memory(options.max_rss) ? options.max_rss : 0;

  Channel channel(inherited_socket);
  Session session(options.device, sandbox, [&] { return channel.take_descriptor(); });
  while (const auto line = channel.read_line()) {
    if (!channel.write_line(session.answer(*line))) break;
  }
  // No destructors: the driver may be wedged by what ran here, and the parent wants the descriptors back now.
  _exit(0);
}
