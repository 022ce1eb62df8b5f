#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "base/hidden_environment.h"

extern char** environ;

namespace planish {
namespace {

constexpr std::size_t tail_bytes = 64U << 10U;
constexpr std::size_t whole_bytes = 64U << 20U;

/// The one thread that forks (see the header). Never destroyed: its end would kill every child.
class Spawner {
 public:
  static Spawner& instance() {
    static Spawner* spawner = new Spawner;
    return *spawner;
  }
  pid_t run(const std::function<pid_t()>& job) {
    std::packaged_task<pid_t()> task(job);
    auto result = task.get_future();
    {
      std::scoped_lock lock(mutex_);
      jobs_.push_back(&task);
    }
    ready_.notify_one();
    return result.get();
  }

 private:
  Spawner() {
    std::thread([this] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      while (true) {
        std::packaged_task<pid_t()>* job = nullptr;
        {
          std::unique_lock lock(mutex_);
          ready_.wait(lock, [this] { return !jobs_.empty(); });
          job = jobs_.front();
          jobs_.pop_front();
        }
        (*job)();
      }
    }).detach();
  }
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::packaged_task<pid_t()>*> jobs_;
};

std::vector<std::string> merged_environment(const SpawnOptions& options) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!hidden_from_children(name) &&
        std::ranges::none_of(options.env, [&](const auto& pair) { return pair.first == name; }))
      merged.emplace_back(text);
  }
  for (const auto& [name, value] : options.env) {
    if (value.has_value() && !hidden_from_children(name)) merged.push_back(name + "=" + *value);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

/// Only async-signal-safe calls: the parent has other threads, whose locks this copy may hold.
[[noreturn]] void become_child(int in, int out, int channel, int report, pid_t parent, const char* directory,
                               char* const* arguments, char* const* environment) {
  const auto give_up = [&] {
    const int number = errno;
    (void)!::write(report, &number, sizeof number);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before the signal was set
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Out of the way of 0 to 3 first, so that no dup2 closes a descriptor still needed.
  in = ::fcntl(in, F_DUPFD_CLOEXEC, 10);
  out = ::fcntl(out, F_DUPFD_CLOEXEC, 10);
  report = ::fcntl(report, F_DUPFD_CLOEXEC, 10);
  if (channel >= 0) channel = ::fcntl(channel, F_DUPFD_CLOEXEC, 10);
  if (in < 0 || out < 0 || report < 0) give_up();
  if (::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) give_up();
  if (channel >= 0) {
    if (::dup2(channel, 3) < 0) give_up();
  } else {
    ::close(3);
  }
  // Whatever else is open stays ours; CLOEXEC rather than closed, because `report` must live until exec.
  ::syscall(SYS_close_range, 4U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  if (directory != nullptr && ::chdir(directory) != 0) give_up();
  ::execvpe(arguments[0], arguments, environment);
  give_up();
  ::_exit(127);
}

bool make_pipe(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  return true;
}

ExitStatus decode(int status) {
  ExitStatus result;
  if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  } else {
    result.code = WEXITSTATUS(status);
  }
  return result;
}

}  // namespace

std::string ExitStatus::text() const {
  if (signal != 0) return fmt::format("signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit status {}", code);
}

struct Subprocess::State {
  pid_t pid = -1;
  Channel channel;
  std::optional<ExitStatus> status;
  std::mutex status_mutex;  // kill() must not race with the reaping that frees the pid
  UniqueFd pidfd;
  UniqueFd output;
  UniqueFd stop;  // closing its other end tells the drain thread to end
  UniqueFd stop_read;
  std::thread drain;
  mutable std::mutex tail_mutex;
  std::string tail;
  std::size_t keep = tail_bytes;

  void drain_output() {
    std::array<char, 65536> block;
    std::size_t after_end = 0;
    while (true) {
      std::array<pollfd, 2> entries{pollfd{output.get(), POLLIN, 0}, pollfd{stop_read.get(), POLLIN, 0}};
      if (::poll(entries.data(), 2, -1) < 0 && errno != EINTR) return;
      if (entries[0].revents != 0) {
        const ssize_t n = ::read(output.get(), block.data(), block.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        // Somebody who left the group may hold the pipe and write for ever.
        if (entries[1].revents != 0 && (after_end += static_cast<std::size_t>(n)) > whole_bytes) return;
        std::scoped_lock lock(tail_mutex);
        tail.append(block.data(), static_cast<std::size_t>(n));
        if (tail.size() > 2 * keep) tail.erase(0, tail.size() - keep);
      } else if (entries[1].revents != 0) {
        return;  // the child has ended and everything it wrote has been read
      }
    }
  }
  /// From when `pid` is there.
  void watch() {
    pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    drain = std::thread([this] { drain_output(); });
  }
  void end_drain() {
    stop.reset();
    if (drain.joinable()) drain.join();
  }
  bool reap(int flags) {
    std::scoped_lock lock(status_mutex);
    if (status.has_value()) return true;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | flags) != 0) {
      if (errno == ECHILD) status = ExitStatus{255, 0};
      return status.has_value();
    }
    if (info.si_pid != pid) return false;
    // What is left of its group goes too, and now: once the leader is reaped, the group's number may be somebody
    // else's.
    ::kill(-pid, SIGKILL);
    int raw = 0;
    ::waitpid(pid, &raw, 0);
    status = decode(raw);
    return true;
  }
};

Subprocess::Subprocess(std::unique_ptr<State> state) : state_(std::move(state)) {}
Subprocess::Subprocess(Subprocess&&) noexcept = default;
Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Subprocess::~Subprocess() {
  if (!state_) return;
  kill();
  // Not a blocking reap(): it would hold the lock that kill() wants.
  while (!state_->reap(WNOHANG)) std::this_thread::sleep_for(std::chrono::microseconds(200));
  state_->end_drain();
}

Result<Subprocess> Subprocess::spawn(const SpawnOptions& options) {
  if (options.command.empty()) return fail("spawn_failed", "no command to run");
  const std::string& program = options.command.front();
  auto state = std::make_unique<State>();
  if (options.whole_output) state->keep = whole_bytes;

  UniqueFd in;
  if (options.input.has_value()) {
    // A memory file rather than a pipe: no thread has to feed it, and it cannot block.
    in.reset(::memfd_create("stdin", MFD_CLOEXEC));
    if (!in)
      return fail("spawn_failed", fmt::format("cannot prepare the input of {}: {}", program, std::strerror(errno)));
    std::string_view rest = *options.input;
    while (!rest.empty()) {
      const ssize_t n = ::write(in.get(), rest.data(), rest.size());
      if (n <= 0) return std::unexpected(file_error(errno, "prepare the input of", program));
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    ::lseek(in.get(), 0, SEEK_SET);
  } else {
    in.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  UniqueFd out_write, report_read, report_write;
  if (!make_pipe(state->output, out_write) || !make_pipe(report_read, report_write) ||
      !make_pipe(state->stop_read, state->stop)) {
    return fail("spawn_failed", fmt::format("cannot make pipes for {}: {}", program, std::strerror(errno)));
  }
  UniqueFd child_end;
  if (options.channel) {
    PLANISH_TRY(auto ends, Channel::pair());
    state->channel = std::move(ends.first);
    child_end = std::move(ends.second);
  }

  std::vector<std::string> arguments = options.command;
  std::vector<std::string> environment = merged_environment(options);
  const auto argument_list = pointers(arguments);
  const auto environment_list = pointers(environment);
  const std::string directory = options.directory.string();
  const pid_t parent = ::getpid();
  int fork_error = 0;
  state->pid = Spawner::instance().run([&]() -> pid_t {
    const pid_t pid = ::fork();
    if (pid == 0) {
      become_child(in.get(), out_write.get(), child_end.get(), report_write.get(), parent,
                   directory.empty() ? nullptr : directory.c_str(), argument_list.data(), environment_list.data());
    }
    if (pid < 0) fork_error = errno;
    return pid;
  });
  if (state->pid < 0)
    return fail("spawn_failed", fmt::format("cannot start {}: {}", program, std::strerror(fork_error)));
  ::setpgid(state->pid, state->pid);  // both sides, so that kill() right away finds the group
  out_write.reset();
  report_write.reset();
  child_end.reset();

  // Between fork and exec somebody may stop it, who stops all that is called so: it would be waited for without end.
  constexpr double longest_start = 60;
  const TimePoint give_up = deadline_in(longest_start);
  pollfd started{report_read.get(), POLLIN, 0};
  while (::poll(&started, 1, 1000) <= 0 && seconds_until(give_up) > 0) {
  }
  if (started.revents == 0) {
    int ignored = 0;
    ::kill(state->pid, SIGKILL);
    ::waitpid(state->pid, &ignored, 0);
    return fail("spawn_failed", fmt::format("{} did not begin within {:.0f} s", program, longest_start),
                "a process that somebody stopped, or a machine without memory, is like that");
  }
  int exec_error = 0;
  ssize_t n = 0;
  do {
    n = ::read(report_read.get(), &exec_error, sizeof exec_error);
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof exec_error)) {
    int ignored = 0;
    ::waitpid(state->pid, &ignored, 0);
    if (exec_error == ENOENT) return fail("no_such_program", fmt::format("there is no program {}", program));
    if (exec_error == EACCES) return fail("permission_denied", fmt::format("{} is not executable", program));
    return fail("spawn_failed", fmt::format("cannot start {}: {}", program, std::strerror(exec_error)));
  }
  state->watch();
  return Subprocess(std::move(state));
}

Result<Subprocess::Ends> Subprocess::Ends::make() {
  Ends ends;
  if (!make_pipe(ends.output, ends.theirs[1]))
    return fail("spawn_failed", fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  PLANISH_TRY(auto pair, Channel::pair());
  ends.channel = std::move(pair.first);
  ends.theirs[0] = std::move(pair.second);
  return ends;
}

Result<Subprocess> Subprocess::adopt(pid_t pid, Ends ends) {
  siginfo_t info{};
  if (pid <= 1 || ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) != 0)
    return fail("spawn_failed", fmt::format("process {} is no child of this one", pid));
  auto state = std::make_unique<State>();
  if (!make_pipe(state->stop_read, state->stop))
    return fail("spawn_failed", fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  state->pid = pid;
  ::setpgid(pid, pid);  // both sides, as in spawn()
  state->channel = std::move(ends.channel);
  state->output = std::move(ends.output);
  state->watch();
  return Subprocess(std::move(state));
}

pid_t Subprocess::pid() const {
  return state_->pid;
}
Channel& Subprocess::channel() {
  return state_->channel;
}

void Subprocess::kill(int signal) {
  std::scoped_lock lock(state_->status_mutex);
  if (!state_->status.has_value()) ::kill(-state_->pid, signal);
}

Result<ExitStatus> Subprocess::wait(TimePoint deadline, const CancelToken* cancel) {
  while (true) {
    if (state_->reap(WNOHANG)) break;
    if (cancel != nullptr && cancel->cancelled())
      return fail("cancelled", "cancelled while waiting for a child process");
    const double left = seconds_until(deadline);
    if (left <= 0) return fail("timeout", fmt::format("process {} did not end in time", state_->pid));
    const double slice = std::min(left, cancel != nullptr ? 0.05 : 3600.0);
    if (state_->pidfd) {
      pollfd entry{state_->pidfd.get(), POLLIN, 0};
      ::poll(&entry, 1, std::max(1, static_cast<int>(slice * 1000)));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a kernel without pidfd
    }
  }
  state_->end_drain();
  return *state_->status;
}

std::optional<ExitStatus> Subprocess::poll() {
  if (!state_->reap(WNOHANG)) return std::nullopt;
  return state_->status;
}

std::string Subprocess::output_tail() const {
  std::scoped_lock lock(state_->tail_mutex);
  const std::string& tail = state_->tail;
  return tail.size() <= state_->keep ? tail : tail.substr(tail.size() - state_->keep);
}

std::size_t Subprocess::resident_bytes() const {
  const auto text = read_file(fmt::format("/proc/{}/statm", state_->pid));
  if (!text.has_value()) return 0;
  std::size_t total = 0, resident = 0;
  if (std::sscanf(text->c_str(), "%zu %zu", &total, &resident) != 2) return 0;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

Result<CommandResult> run_command(SpawnOptions options, double timeout_seconds, const CancelToken* cancel) {
  PLANISH_TRY(auto child, Subprocess::spawn(options));
  auto status = child.wait(deadline_in(timeout_seconds), cancel);
  if (!status.has_value()) {
    child.kill();
    Error error = std::move(status).error();
    if (error.kind == "timeout") {
      error.message = fmt::format("{} did not end within {:.0f} s", options.command.front(), timeout_seconds);
      if (std::string tail = child.output_tail(); !tail.empty()) {
        const std::size_t most = options.whole_output ? std::size_t{1} << 20 : 2000;
        error.causes.push_back(tail.size() > most ? tail.substr(tail.size() - most) : tail);
      }
    }
    return std::unexpected(std::move(error));
  }
  return CommandResult{*status, child.output_tail()};
}

}  // namespace planish
