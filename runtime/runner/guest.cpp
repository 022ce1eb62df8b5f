#include "guest.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fault.h"
#include "guest_environment.h"
#include "guest_place.h"
#include "guest_watch.h"
#include "limits.h"
#include "planish_target.h"

extern char** environ;

namespace planish::runner {
namespace {

constexpr int parent_socket = 3;
constexpr int watch_every_ms = 25;
constexpr int cannot_start = 127;

struct GuestOptions {
  GuestRules rules;
  std::uint64_t max_rss = 0;
  std::vector<char*> command;
};

constexpr const char* guest_usage =
    "error: usage: planish-runner --guest --scratch FOLDER [--writable FOLDER]... [--readable PATH]...\n"
    "                             [--max-rss BYTES] [--device cpu|cuda] [--network none|loopback] -- COMMAND "
    "[ARGUMENT]...\n";

bool parse_guest(int argc, char** argv, GuestOptions* out) {
  int i = 0;
  for (; i + 1 < argc && std::strcmp(argv[i], "--") != 0; i += 2) {
    const std::string option = argv[i];
    if (option == "--scratch") {
      out->rules.scratch = argv[i + 1];
    } else if (option == "--writable") {
      out->rules.writable.emplace_back(argv[i + 1]);
    } else if (option == "--readable") {
      out->rules.readable.emplace_back(argv[i + 1]);
    } else if (option == "--device") {
      const auto place = rt::find_place(argv[i + 1]);
      if (!place) return false;
      out->rules.cuda = !place->target->on_host;
    } else if (option == "--network") {
      out->rules.loopback = std::strcmp(argv[i + 1], "loopback") == 0;
      if (!out->rules.loopback && std::strcmp(argv[i + 1], "none") != 0) return false;
    } else if (option == "--max-rss") {
      char* end = nullptr;
      out->max_rss = std::strtoull(argv[i + 1], &end, 10);
      if (*end != '\0') return false;
    } else {
      return false;
    }
  }
  if (i >= argc || std::strcmp(argv[i], "--") != 0) return false;
  out->command.assign(argv + i + 1, argv + argc);
  out->command.push_back(nullptr);
  return out->command.size() > 1 && out->rules.scratch.starts_with('/');
}

template <typename T>
bool send_plain(int fd, const T& value) {
  return write(fd, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}
template <typename T>
bool receive_plain(int fd, T* value) {
  ssize_t n = 0;
  do {
    n = read(fd, value, sizeof *value);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(sizeof *value);
}

[[noreturn]] void become_guest(const GuestOptions& options, GuestFacts facts, int report) {
  die_with_parent();
  // Descriptors that leaked into this process are doors that no rule closes.
  if (report != parent_socket + 1) {
    dup2(report, parent_socket + 1);
    report = parent_socket + 1;
  }
  fcntl(report, F_SETFD, FD_CLOEXEC);
  syscall(SYS_close_range, static_cast<unsigned>(report) + 1, ~0U, 0);
  for (const char* folder : {"tmp", "cache"}) mkdir((options.rules.scratch + "/" + folder).c_str(), 0700);
  std::vector<std::string> environment = guest_environment(environ, options.rules.scratch, options.rules.writable);
  std::vector<char*> entries;
  for (std::string& entry : environment) entries.push_back(entry.data());
  entries.push_back(nullptr);
  lock_in(options.rules, &facts);
  send_plain(report, facts);
  execvpe(options.command[0], options.command.data(), entries.data());
  std::fprintf(stderr, "cannot start %s: %s\n", options.command[0], std::strerror(errno));
  _exit(cannot_start);
}

/// The first process of the guest's place: waits for the guest and reaps what it leaves. It holds nothing of the
/// guest's, and its end is the end of all of them.
[[noreturn]] void keep_house(const GuestOptions& options, GuestFacts facts, int go, int report, int status_pipe) {
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // the kernel gives files of /proc to their process only so
  die_with_parent();
  char byte = 0;
  if (!receive_plain(go, &byte)) _exit(cannot_start);  // the parent was gone before the line above
  close(go);
  if (facts.user_namespace) keep_identity();
  furnish(options.rules, &facts);
  const pid_t guest = fork();
  if (guest == 0) {
    close(status_pipe);
    become_guest(options, facts, report);
  }
  if (guest < 0) _exit(cannot_start);
  close(report);
  close(parent_socket);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  for (;;) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended == guest) {
      send_plain(status_pipe, status);
      _exit(0);
    }
    if (ended < 0 && errno != EINTR) _exit(cannot_start);
  }
}

/// Tells the evaluator what holds the guest, before the guest can say anything.
void announce(const GuestFacts& facts, std::uint64_t max_rss) {
  nlohmann::json missing = nlohmann::json::array();
  const auto need = [&](bool there, const char* what) {
    if (!there) missing.push_back(what);
  };
  need(facts.landlock > 0 || facts.read_only_mounts, "the file system can be written to");
  need(facts.landlock >= 6 || facts.pid_namespace, "other processes of this user can be sent signals");
  need(facts.network_namespace || facts.seccomp, "the network can be reached");
  need(facts.seccomp, "system calls are not filtered");
  need(facts.landlock > 0 || facts.seccomp, "other processes of this user can be traced");
  need(facts.no_capabilities, "privileges were not dropped");
  const nlohmann::json line{{"event", "sandbox"},
                            {"sandbox",
                             {{"landlock", facts.landlock},
                              {"seccomp", facts.seccomp ? "tools" : "none"},
                              {"user_namespace", facts.user_namespace},
                              {"pid_namespace", facts.pid_namespace},
                              {"network_namespace", facts.network_namespace},
                              {"loopback", facts.loopback},
                              {"private_proc", facts.private_proc},
                              {"read_only_mounts", facts.read_only_mounts},
                              {"no_new_privileges", facts.no_new_privileges},
                              {"no_capabilities", facts.no_capabilities},
                              {"max_rss", max_rss},
                              {"missing", missing}}}};
  const std::string text = line.dump() + "\n";
  (void)!send(parent_socket, text.data(), text.size(), MSG_NOSIGNAL);
}

/// Until the guest has ended; true where it was ended for its memory.
bool watch_guest(pid_t house, std::uint64_t max_rss) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, house, 0));
  for (;;) {
    if (pidfd >= 0) {
      pollfd entry{pidfd, POLLIN, 0};
      poll(&entry, 1, max_rss > 0 ? watch_every_ms : -1);
    } else {
      usleep(watch_every_ms * 1000);
    }
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(house), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == house)
      return false;
    if (max_rss > 0 && resident_bytes_of(family_of(house)) > max_rss) return true;
  }
}

}  // namespace

int run_guest(int argc, char** argv) {
  GuestOptions options;
  if (!parse_guest(argc, argv, &options)) {
    std::fputs(guest_usage, stderr);
    return 2;
  }
  int go[2], report[2], status_pipe[2];
  if (pipe2(go, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0 || pipe2(status_pipe, O_CLOEXEC) != 0) return 2;
  install_fault_handler(parent_socket);
  // Whatever the guest leaves behind becomes ours, where there are no process namespaces to end it.
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  GuestFacts facts;
  const pid_t house = fork_into_namespaces(&facts);
  if (house == 0) {
    close(go[1]);
    close(report[0]);
    close(status_pipe[0]);
    keep_house(options, facts, go[0], report[1], status_pipe[1]);
  }
  if (house < 0) {
    std::fprintf(stderr, "cannot make a process for the guest: %s\n", std::strerror(errno));
    return cannot_start;
  }
  close(go[0]);
  close(report[1]);
  close(status_pipe[1]);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  send_plain(go[1], '!');
  if (receive_plain(report[0], &facts)) announce(facts, options.max_rss);
  const bool too_large = watch_guest(house, options.max_rss);
  kill(house, SIGKILL);
  waitpid(house, nullptr, 0);
  kill_descendants();
  if (too_large) die_of_fault(SIGKILL, 0, "memory");
  int status = 0;
  if (!receive_plain(status_pipe[0], &status)) return cannot_start;
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : cannot_start;
}

}  // namespace planish::runner
