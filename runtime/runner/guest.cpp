#include "guest.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
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
#include "guest_tmp.h"
#include "guest_watch.h"
#include "limits.h"
#include "planish_target.h"

extern char** environ;

namespace planish::runner {
namespace {

constexpr int parent_socket = 3, report_pipe = 4, tmp_socket = 5;
constexpr int watch_every_ms = 25;
constexpr int rounds_of_a_look = 40;
/// In its scratch: extensions and compilers' caches take a thousandth of it.
constexpr std::uint64_t most_disk_bytes = std::uint64_t{32} << 30U;
constexpr int cannot_start = 127;

struct GuestOptions {
  GuestRules rules;
  std::uint64_t max_rss = 0;
  std::vector<char*> command;
};

constexpr const char* guest_usage =
    "error: usage: planish-runner --guest --scratch FOLDER [--writable FOLDER]... [--readable PATH]...\n"
    "                             [--max-rss BYTES] [--device cpu|cuda] [--network none|loopback] [--tmp own|shared]\n"
    "                             [--hidden PATH]... -- COMMAND [ARGUMENT]...\n";

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
    } else if (option == "--hidden") {
      out->rules.hidden.emplace_back(argv[i + 1]);
    } else if (option == "--device") {
      const auto place = rt::find_place(argv[i + 1]);
      if (!place) return false;
      out->rules.cuda = !place->target->on_host;
    } else if (option == "--network") {
      out->rules.loopback = std::strcmp(argv[i + 1], "loopback") == 0;
      if (!out->rules.loopback && std::strcmp(argv[i + 1], "none") != 0) return false;
    } else if (option == "--tmp") {
      out->rules.own_tmp = std::strcmp(argv[i + 1], "own") == 0;
      if (!out->rules.own_tmp && std::strcmp(argv[i + 1], "shared") != 0) return false;
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

/// `to`, closed by exec only where it says so.
void place_descriptor(int from, int to, bool close_on_exec) {
  if (from != to) dup2(from, to);
  fcntl(to, F_SETFD, close_on_exec ? FD_CLOEXEC : 0);
}

/// `ask`: over which its /tmp is asked for; -1 where there will be none.
[[noreturn]] void become_guest(const GuestOptions& options, GuestFacts facts, int report, int ask) {
  die_with_parent();
  // Descriptors that leaked into this process are doors that no rule closes.
  const int spare_report = fcntl(report, F_DUPFD_CLOEXEC, tmp_socket + 1);
  const int spare_ask = ask >= 0 ? fcntl(ask, F_DUPFD_CLOEXEC, tmp_socket + 1) : -1;
  place_descriptor(spare_report, report_pipe, true);
  if (spare_ask >= 0) place_descriptor(spare_ask, tmp_socket, false);
  syscall(SYS_close_range, static_cast<unsigned>(spare_ask >= 0 ? tmp_socket : report_pipe) + 1, ~0U, 0);
  std::vector<std::string> environment = guest_environment(environ, options.rules.scratch, options.rules.writable);
  if (options.rules.own_tmp) environment.push_back("PLANISH_GUEST_FOLDER=" + options.rules.scratch + "/work");
  if (spare_ask >= 0) environment.push_back("PLANISH_GUEST_TMP=" + std::to_string(tmp_socket));
  std::vector<char*> entries;
  for (std::string& entry : environment) entries.push_back(entry.data());
  entries.push_back(nullptr);
  lock_in(options.rules, &facts);
  send_plain(report_pipe, facts);
  execvpe(options.command[0], options.command.data(), entries.data());
  std::fprintf(stderr, "cannot start %s: %s\n", options.command[0], std::strerror(errno));
  _exit(cannot_start);
}

/// The guest, before it loads what nobody trusts, asks once for its own /tmp, with the paths below the real one that it
/// goes on to read, each ended by a zero. Where that cannot be done it does not go on.
void answer_for_tmp(const GuestRules& rules, int door) {
  std::string asked(std::size_t{1} << 18U, '\0');
  ssize_t n = 0;
  do {
    n = recv(door, asked.data(), asked.size(), MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return;  // ended without asking
  std::vector<std::string> readable;
  for (std::size_t begin = 0, size = static_cast<std::size_t>(n); begin < size;) {
    const std::size_t end = std::min(asked.find('\0', begin), size);
    readable.push_back(asked.substr(begin, end - begin));
    begin = end + 1;
  }
  if (!own_tmp(rules.scratch, rules.writable, readable, rules.hidden)) _exit(cannot_start);
  (void)!send(door, "+", 1, MSG_NOSIGNAL);
}

/// Until the guest has ended, whose status that is; then the end of everything.
[[noreturn]] void reap(const GuestRules& rules, pid_t guest, int children, int door, int status_pipe) {
  for (;;) {
    pollfd entries[]{{children, POLLIN, 0}, {door, POLLIN, 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) _exit(cannot_start);
    if (door >= 0 && entries[1].revents != 0) {
      answer_for_tmp(rules, door);
      close(door);
      door = -1;
    }
    signalfd_siginfo ignored;
    if (entries[0].revents != 0) (void)!read(children, &ignored, sizeof ignored);
    int status = 0;
    for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) != 0;) {
      if (ended == guest) {
        send_plain(status_pipe, status);
        _exit(0);
      }
      if (ended < 0 && errno != EINTR) _exit(cannot_start);
    }
  }
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
  for (const char* folder : {"tmp", "cache", "work", "home"})
    mkdir((options.rules.scratch + "/" + folder).c_str(), 0700);
  furnish(options.rules, &facts);
  int door[2] = {-1, -1};
  if (facts.private_tmp && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door) != 0) _exit(cannot_start);
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &before);
  const int children = signalfd(-1, &child, SFD_CLOEXEC);
  const pid_t guest = fork();
  if (guest == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    close(status_pipe);
    become_guest(options, facts, report, door[1]);
  }
  if (guest < 0 || children < 0) _exit(cannot_start);
  close(report);
  close(parent_socket);
  if (door[1] >= 0) close(door[1]);
  (void)!chdir("/");  // where it started may lie below the /tmp that the guest is not to see
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  reap(options.rules, guest, children, door[0], status_pipe);
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
                              {"private_tmp", facts.private_tmp},
                              {"no_new_privileges", facts.no_new_privileges},
                              {"no_capabilities", facts.no_capabilities},
                              {"max_rss", max_rss},
                              {"missing", missing}}}};
  const std::string text = line.dump() + "\n";
  (void)!send(parent_socket, text.data(), text.size(), MSG_NOSIGNAL);
}

/// What a guest was ended for; nothing where it ended by itself.
const char* taken_too_much(pid_t house, const GuestOptions& options, bool all) {
  const std::vector<pid_t> family = options.max_rss > 0 || all ? family_of(house) : std::vector<pid_t>();
  if (options.max_rss > 0) {
    const std::uint64_t files = all ? memory_file_bytes_of(family) : 0;
    if (resident_bytes_of(family) + files > options.max_rss) return "memory";
  }
  return all && disk_bytes_below(options.rules.scratch.c_str()) > most_disk_bytes ? "disk" : nullptr;
}

/// Until the guest has ended.
const char* watch_guest(pid_t house, const GuestOptions& options) {
  int round = 0;
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, house, 0));
  for (;;) {
    if (pidfd >= 0) {
      pollfd entry{pidfd, POLLIN, 0};
      poll(&entry, 1, options.max_rss > 0 ? watch_every_ms : watch_every_ms * rounds_of_a_look);
    } else {
      usleep(watch_every_ms * 1000);
    }
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(house), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == house)
      return nullptr;
    // What takes longer to look at is looked at now and then.
    const bool all = options.max_rss == 0 || ++round % rounds_of_a_look == 0;
    if (const char* what = taken_too_much(house, options, all); what != nullptr) return what;
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
  const char* too_much = watch_guest(house, options);
  kill(house, SIGKILL);
  waitpid(house, nullptr, 0);
  kill_descendants();
  if (too_much != nullptr) die_of_fault(SIGKILL, 0, too_much);
  int status = 0;
  if (!receive_plain(status_pipe[0], &status)) return cannot_start;
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : cannot_start;
}

}  // namespace planish::runner
