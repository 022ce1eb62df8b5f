// What a CPU kernel, which is foreign host code, may do under `planish-runner --sandbox`, and what it may not.
#include <netinet/in.h>

#include "support.h"

using namespace runtime_test;

namespace {

constexpr int slots = 64;

const char* const headers = R"(
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
static int results[64];
)";

/// Whether each attempt that the kernel made succeeded (1), or with which error it failed (-errno).
struct Attempts {
  Scratch scratch;
  Shared out{slots * 4};
  std::vector<std::string> options{"--sandbox", "--readable", scratch.path + "/cache"};
  Json hello;

  /// `attempts` are expressions of which a negative value means failure with errno. With `constructor` they run at
  /// dlopen, and the kernel only reports.
  std::vector<int> make(const std::vector<std::string>& attempts, const std::string& flags = "",
                        bool constructor = false) {
    std::string top =
        std::string(headers) + (constructor ? "__attribute__((constructor)) " : "") + "static void attempt() {\n";
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      top += "errno = 0; { long r = (long)(" + attempts[i] + "); results[" + std::to_string(i) +
             "] = r < 0 ? (errno ? -errno : -1000) : 1; }\n";
    }
    top += "}\n";
    const std::string body =
        std::string(constructor ? "" : "attempt();") + "std::memcpy(args[0], results, sizeof results);";
    const Json document = program({buffer("output", {slots})}, {launch(0, {{{"buffer", 0}}})});
    const std::string built = compile(scratch, body, flags, top);
    std::filesystem::create_directories(scratch.path + "/cache");
    const std::string binary = scratch.path + "/cache/k.so";
    std::filesystem::rename(built, binary);

    Runner runner(options);
    hello = runner.call("hello", Json::object())["result"]["sandbox"];
    const Json loaded = runner.call("load", {{"program", document}, {"binaries", {binary}}, {"blobs", ""}});
    REQUIRE_MESSAGE(loaded.contains("result"), loaded.dump());
    const Json bound = runner.call(
        "bind", {{"handle", 1}, {"data", "d"}, {"buffers", Json::array({description(out, 0, slots * 4, true)})}},
        {prt_buffer_fd(out.buffer)});
    REQUIRE_MESSAGE(bound.contains("result"), bound.dump());
    const Json ran = runner.call("run", {{"handle", 1}, {"data", "d"}});
    REQUIRE_MESSAGE(ran.contains("result"), ran.dump());
    return {out.data<int>(), out.data<int>() + attempts.size()};
  }
};

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

void all_refused(const std::vector<std::string>& attempts, const std::vector<int>& results) {
  REQUIRE(attempts.size() == results.size());
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    INFO(attempts[i], " gave ", results[i]);
    const int code = -results[i];
    const bool refused = code == EPERM || code == EACCES || code == ENOSYS;
    CHECK(refused);
  }
}

/// Skips what needs a part that this machine's kernel lacks; says so.
bool in_force(const Json& hello, const char* part) {
  const bool yes = std::string(part) == "landlock" ? hello["landlock"].get<int>() > 0 : hello["seccomp"] == "guest";
  if (!yes) MESSAGE("this machine has no " << part << ": not tested");
  return yes;
}

/// A file that belongs to the person who runs this, outside what a guest needs.
struct Secret {
  std::string path;
  explicit Secret(const std::string& folder) : path(folder + "/secret") { std::ofstream(path) << "private\n"; }
};

}  // namespace

TEST_CASE("without the sandbox the attempts succeed, so that the tests below mean something") {
  Attempts attempts;
  attempts.options.clear();
  const Secret secret(attempts.scratch.path);
  for (const int result : attempts.make({
           "open(" + quoted(secret.path) + ", O_RDONLY)",
           "open(" + quoted(attempts.scratch.path + "/new") + ", O_WRONLY | O_CREAT, 0600)",
           "socket(AF_INET, SOCK_STREAM, 0)",
           "kill(getppid(), 0)",
           "[] { pid_t p = fork(); if (p == 0) _exit(0); return p; }()",
       })) {
    CHECK(result == 1);
  }
  CHECK_FALSE(attempts.hello.contains("seccomp"));
}

TEST_CASE("a kernel cannot write, read what is not its own, or change files") {
  Attempts attempts;
  const std::string here = attempts.scratch.path;
  const Secret secret(here);
  const std::vector<std::string> writing{
      "open(" + quoted(here + "/new") + ", O_WRONLY | O_CREAT, 0600)",
      "open(" + quoted(here + "/cache/new") + ", O_WRONLY | O_CREAT, 0600)",
      "open(" + quoted(secret.path) + ", O_RDWR)",
      "open(\"/tmp\", O_TMPFILE | O_RDWR, 0600)",
      "open(\"/dev/shm/planish-test\", O_WRONLY | O_CREAT, 0600)",
      "open(\"/proc/self/oom_score_adj\", O_WRONLY)",
      "mkdir(" + quoted(here + "/folder") + ", 0700)",
      "unlink(" + quoted(secret.path) + ")",
      "rename(" + quoted(secret.path) + ", " + quoted(here + "/other") + ")",
      "symlink(\"/\", " + quoted(here + "/link") + ")",
      "truncate(" + quoted(secret.path) + ", 0)",
      "chmod(" + quoted(secret.path) + ", 0777)",
      "memfd_create(\"x\", 0)",
  };
  all_refused(writing, attempts.make(writing));
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "/root";
  const std::vector<std::string> reading{
      "open(" + quoted(secret.path) + ", O_RDONLY)",
      "open(" + quoted(home) + ", O_RDONLY | O_DIRECTORY)",
      "open(\"/etc/passwd\", O_RDONLY)",
      "open(\"/\", O_RDONLY | O_DIRECTORY)",
      "open((\"/proc/\" + std::to_string(getppid()) + \"/environ\").c_str(), O_RDONLY)",
  };
  const std::vector<int> results = attempts.make(reading, "-include string");
  if (in_force(attempts.hello, "landlock")) all_refused(reading, results);
  CHECK(std::filesystem::exists(secret.path));
  CHECK_FALSE(std::filesystem::exists(here + "/new"));
}

TEST_CASE("a kernel cannot hide where it wrote, and holds no file back from others") {
  const std::vector<std::string> tries{
      "signal(SIGSEGV, SIG_IGN) == SIG_ERR ? -1 : 0",
      "signal(SIGBUS, SIG_DFL) == SIG_ERR ? -1 : 0",
      "[] { struct sigaction a{}; return sigaction(SIGSEGV, &a, nullptr); }()",
      "fcntl(0, F_SETLEASE, F_RDLCK)",
      "[] { struct flock l{}; l.l_type = F_RDLCK; return fcntl(0, F_SETLK, &l); }()",
      "flock(0, LOCK_SH)",
  };
  Attempts attempts;
  const std::vector<int> results = attempts.make(tries, "-include csignal -include sys/file.h");
  if (in_force(attempts.hello, "seccomp")) all_refused(tries, results);
  // Signals that say nothing of memory stay theirs.
  Attempts others;
  CHECK(others.make({"signal(SIGUSR1, SIG_IGN) == SIG_ERR ? -1 : 0"}, "-include csignal").front() == 1);
}

TEST_CASE("a kernel cannot reach the network, start a process or touch another one") {
  const std::vector<std::string> tries{
      "socket(AF_INET, SOCK_STREAM, 0)",
      "socket(AF_INET6, SOCK_DGRAM, 0)",
      "socket(AF_UNIX, SOCK_STREAM, 0)",
      "[] { int pair[2]; return socketpair(AF_UNIX, SOCK_STREAM, 0, pair); }()",
      "[] { sockaddr_un a{}; a.sun_family = AF_UNIX; return connect(3, (sockaddr*)&a, sizeof a); }()",
      "[] { msghdr m{}; return sendmsg(3, &m, 0); }()",
      "fork()",
      "vfork()",
      "syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)",
      "[] { clone_args a{}; a.exit_signal = SIGCHLD; return syscall(SYS_clone3, &a, sizeof a); }()",
      "execl(\"/bin/true\", \"true\", nullptr)",
      "[] { char* a[2]{}; int e = posix_spawn(nullptr, \"/bin/true\", nullptr, nullptr, a, a + 1); errno = e; return "
      "-e; }()",
      "ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr)",
      "[] { char c; iovec l{&c, 1}, r{&c, 1}; return process_vm_readv(getppid(), &l, 1, &r, 1, 0); }()",
      "kill(getppid(), 0)",
      "kill(0, 0)",
      "kill(-1, 0)",
      "syscall(SYS_tgkill, getppid(), getppid(), 0)",
      "syscall(SYS_pidfd_open, getppid(), 0)",
      "setpriority(PRIO_PROCESS, getppid(), 5)",
      "[] { rlimit64 l{0, 0}; return syscall(SYS_prlimit64, getppid(), RLIMIT_CPU, &l, nullptr); }()",
      "unshare(CLONE_NEWUSER)",
      "setsid()",
      "prctl(PR_SET_PDEATHSIG, 0)",
      "syscall(SYS_io_uring_setup, 1, nullptr)",
      "syscall(SYS_bpf, 0, nullptr, 0)",
      "syscall(0x40000000 | SYS_getpid)",
  };
  for (const bool constructor : {false, true}) {
    CAPTURE(constructor);
    Attempts attempts;
    const std::vector<int> results = attempts.make(tries, "", constructor);
    if (in_force(attempts.hello, "seccomp")) all_refused(tries, results);
  }
}

TEST_CASE("another process's processors are not a kernel's to choose") {
  Attempts attempts;
  cpu_set_t before, after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  attempts.make(
      {"[] { cpu_set_t s; CPU_ZERO(&s); CPU_SET(0, &s); return sched_setaffinity(getppid(), sizeof s, &s); }()"});
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  const bool same = CPU_EQUAL(&before, &after);
  if (in_force(attempts.hello, "seccomp")) CHECK(same);
}

TEST_CASE("a scratch folder may be written to, but what is there is no code") {
  Attempts attempts;
  const std::string folder = attempts.scratch.path + "/scratch";
  std::filesystem::create_directories(folder);
  attempts.options.insert(attempts.options.end(), {"--scratch", folder});
  const std::vector<int> results =
      attempts.make({"open(" + quoted(folder + "/new") + ", O_RDWR | O_CREAT, 0600)",
                     "open(" + quoted(attempts.scratch.path + "/new") + ", O_RDWR | O_CREAT, 0600)"});
  if (!in_force(attempts.hello, "landlock")) return;
  CHECK(results[0] == 1);
  CHECK(results[1] == -EACCES);
  CHECK(std::filesystem::exists(folder + "/new"));
}

TEST_CASE("an honest OpenMP kernel works in the sandbox, with every limit on") {
  for (const bool bind : {false, true}) {
    CAPTURE(bind);
    if (bind) setenv("OMP_PROC_BIND", "true", 1);
    Attempts attempts;
    attempts.options.insert(attempts.options.end(), {"--no-network", "--max-rss", "1000000000"});
    const std::vector<int> results = attempts.make(
        {R"([] { long sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(4)
for (int i = 0; i < 1000; ++i) sum += i;
return sum == 499500 ? 1 : -1; }())",
         "[] { int n = 0;\n#pragma omp parallel num_threads(3)\n{\n#pragma omp atomic\n++n;\n}\n return n == 3 ? 1 : "
         "-1; }()",
         "[] { void* p = mmap(nullptr, 1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);"
         " memset(p, 1, 1 << 24); return munmap(p, 1 << 24); }()",
         "open(\"/dev/urandom\", O_RDONLY)"},
        "-fopenmp");
    unsetenv("OMP_PROC_BIND");
    for (const int result : results) CHECK(result == 1);
    CHECK(attempts.hello["max_rss"] == 1000000000);
    CHECK(attempts.hello["parent_death_signal"] == true);
  }
}

TEST_CASE("programs that come later load too; folders that were not named do not") {
  const Scratch scratch, other;
  Runner runner({"--sandbox", "--readable", scratch.path});
  const Json sandbox = runner.call("hello", Json::object())["result"]["sandbox"];
  const Json document = program({buffer("output", {8})}, {launch(0, {{{"buffer", 0}}})});
  for (int i = 0; i < 3; ++i) {
    const Json loaded =
        runner.call("load", {{"program", document}, {"binaries", {compile(scratch, "*(float*)args[0] = 1;")}}});
    CHECK_MESSAGE(loaded.contains("result"), loaded.dump());
  }
  if (!in_force(sandbox, "landlock")) return;
  const Json refused = runner.call("load", {{"program", document}, {"binaries", {compile(other, "")}}});
  REQUIRE(refused.contains("error"));
  CHECK(refused["error"]["kind"] == "load_failed");
}

TEST_CASE("faults and memory are reported from inside the sandbox") {
  const Scratch scratch;
  const auto event_of = [&](const std::string& body) {
    const Shared out(1024);
    Runner runner({"--sandbox", "--readable", scratch.path, "--max-rss", std::to_string(200 << 20)});
    const Json document = program({buffer("output", {256})}, {launch(0, {{{"buffer", 0}}})});
    REQUIRE(runner.call("load", {{"program", document}, {"binaries", {compile(scratch, body)}}}).contains("result"));
    REQUIRE(runner
                .call("bind",
                      {{"handle", 1}, {"data", "d"}, {"buffers", Json::array({description(out, 0, 1024, true)})}},
                      {prt_buffer_fd(out.buffer)})
                .contains("result"));
    return runner.call("run", {{"handle", 1}, {"data", "d"}});
  };
  CHECK(event_of("((volatile float*)args[0])[256 + 4096] = 1;")["where"] == "guard:output:0");
  CHECK(event_of("abort();")["signal"] == SIGABRT);
  CHECK(event_of("for (;;) { auto p = (volatile char*)malloc(1 << 20); for (int i = 0; i < 1 << 20; i += 4096) p[i] = "
                 "1; usleep(100); }")["where"] == "memory");
}

TEST_CASE("the device looks the same from inside the sandbox") {
  Runner inside({"--sandbox"}), outside;
  CHECK(inside.call("hello", Json::object())["result"]["device"] ==
        outside.call("hello", Json::object())["result"]["device"]);
}

TEST_CASE("more descriptors than one message of the kernel holds") {
  const Scratch scratch;
  Json buffers = Json::array(), descriptions = Json::array(), arguments = Json::array();
  const Shared out(64);
  std::vector<int> fds;
  for (int i = 0; i < 100; ++i) {
    buffers.push_back(buffer("output", {16}));
    descriptions.push_back(description(out, i, 64, true));
    fds.push_back(prt_buffer_fd(out.buffer));
  }
  Runner runner;
  const Json document = program(buffers, {launch(0, {{{"buffer", 99}}})});
  REQUIRE(runner.call("load", {{"program", document}, {"binaries", {compile(scratch, "*(float*)args[0] = 7;")}}})
              .contains("result"));
  const Json message = {{"id", 2},
                        {"method", "bind"},
                        {"fds", 100},
                        {"params", {{"handle", 1}, {"data", "d"}, {"buffers", descriptions}}}};
  const std::string line = message.dump();
  runner.send_part(line.substr(0, 1), {fds.begin(), fds.begin() + 64});
  runner.send_part(line.substr(1) + "\n", {fds.begin() + 64, fds.end()});
  const Json bound = runner.receive();
  REQUIRE_MESSAGE(bound.contains("result"), bound.dump());
  CHECK(runner.call("run", {{"handle", 1}, {"data", "d"}}).contains("result"));
  CHECK(out.data()[0] == 7);
}

TEST_CASE("an answer repeats the number of its request, whatever it is") {
  Runner runner;
  for (const std::int64_t id : {std::int64_t{0}, INT64_MAX, std::int64_t{7364529915528041}}) {
    for (const char* method : {"hello", "frobnicate"}) {
      runner.send(Json{{"id", id}, {"method", method}, {"params", Json::object()}}.dump());
      CHECK(runner.receive()["id"] == id);
    }
  }
}

TEST_CASE("options that only the sandbox enforces are refused without it") {
  Runner readable({"--readable", "/usr"}), scratch({"--scratch", "/tmp"});
  CHECK(readable.wait() == 2);
  CHECK(scratch.wait() == 2);
}
