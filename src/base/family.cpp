#include "base/family.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/file.h"

namespace planish {
namespace {

std::vector<pid_t> numbers_in(const std::string& text) {
  std::vector<pid_t> found;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    pid_t number = 0;
    const auto [end, code] = std::from_chars(at, text.data() + text.size(), number);
    if (code == std::errc()) found.push_back(number);
    at = code == std::errc() ? end : at + 1;
  }
  return found;
}

/// Children by parent, from what every process says of itself: where the kernel keeps no lists of children.
std::map<pid_t, std::vector<pid_t>> all_children() {
  std::map<pid_t, std::vector<pid_t>> found;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", code)) {
    const auto pids = numbers_in(entry.path().filename().string());
    if (pids.empty()) continue;
    const auto text = read_file(entry.path() / "stat");
    if (!text.has_value()) continue;
    // "pid (name) state parent …", and a name may hold anything.
    const std::size_t after = text->rfind(')');
    if (after == std::string::npos || after + 4 > text->size()) continue;
    const auto parent = numbers_in(text->substr(after + 4, text->find(' ', after + 4) - after - 4));
    if (!parent.empty()) found[parent.front()].push_back(pids.front());
  }
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  std::error_code code;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", parent), code)) {
    if (const auto text = read_file(thread.path() / "children"); text.has_value()) {
      const auto some = numbers_in(*text);
      found.insert(found.end(), some.begin(), some.end());
    }
  }
  return found;
}

std::vector<pid_t> descendants_of(pid_t first) {
  static const bool lists = ::access("/proc/thread-self/children", R_OK) == 0;
  const auto all = lists ? std::map<pid_t, std::vector<pid_t>>() : all_children();
  std::vector<pid_t> found{first};
  for (std::size_t next = 0; next < found.size(); ++next) {
    const auto known = all.find(found[next]);
    const auto some = lists ? children_of(found[next]) : known == all.end() ? std::vector<pid_t>() : known->second;
    for (const pid_t child : some) {
      if (std::ranges::find(found, child) == found.end()) found.push_back(child);
    }
  }
  found.erase(found.begin());
  return found;
}

/// Fields of a `stat` behind the name: "state parent …"; empty where the process or thread is gone.
std::string after_name(const std::filesystem::path& stat) {
  const auto text = read_file(stat);
  // A name may hold anything.
  const std::size_t end = text.has_value() ? text->rfind(')') : std::string::npos;
  return end == std::string::npos || end + 2 > text->size() ? std::string() : text->substr(end + 2);
}

std::string after_name(pid_t pid) {
  return after_name(std::filesystem::path(fmt::format("/proc/{}/stat", pid)));
}

}  // namespace

Family::Use Family::use() const {
  Use found;
  std::vector<pid_t> all = descendants_of(first_);
  all.push_back(first_);
  for (const pid_t pid : all) {
    std::istringstream words(after_name(pid));
    char state = 0;
    long long skipped = 0, ticks = 0, total = 0;
    words >> state;
    if (!words || state == 'Z') continue;
    // utime, stime, and those of its children that have ended, are its 14th to 17th field.
    for (int field = 4; field < 14; ++field) words >> skipped;
    for (int field = 14; field < 18 && words >> ticks; ++field) total += ticks;
    found.seconds += static_cast<double>(total) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    ++found.processes;
    found.waits = found.waits && state == 'S';
  }
  return found;
}

bool Family::first_is_stopped() const {
  return after_name(first_).starts_with('T');
}

void Family::signal_all(int signal) const {
  for (const Member& member : members_) {
#ifdef SYS_pidfd_send_signal
    if (member.handle) {
      (void)::syscall(SYS_pidfd_send_signal, member.handle.get(), signal, nullptr, 0);
      continue;
    }
#endif
    (void)::kill(member.pid, signal);
  }
}

void Family::stop() {
  stopped_ = true;
  signal_all(SIGSTOP);
}

bool Family::stop_others() {
  bool any = false, grew = true;
  // One that is not stopped yet may start another.
  for (int round = 0; grew && round < 100; ++round) {
    grew = false;
    const std::vector<pid_t> present = descendants_of(first_);
    std::erase_if(members_,
                  [&](const Member& member) { return std::ranges::find(present, member.pid) == present.end(); });
    for (const pid_t pid : present) {
      if (std::ranges::find(members_, pid, &Member::pid) != members_.end()) continue;
      Member member{pid, {}};
#ifdef SYS_pidfd_open
      member.handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#endif
      members_.push_back(std::move(member));
      grew = true;
    }
    if (grew) stop();
    any = any || grew;
  }
  return any;
}

Family::Threads Family::threads() const {
  constexpr std::string_view standing = "TtZX";
  constexpr double nanosecond = 1e-9;
  Threads found;
  for (const pid_t pid : descendants_of(first_)) {
    std::error_code code;
    for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), code)) {
      const std::string fields = after_name(thread.path() / "stat");
      if (fields.empty()) continue;
      found.still = found.still && standing.find(fields.front()) != std::string_view::npos;
      // "nanoseconds on a processor, nanoseconds waited for one, …"
      std::uint64_t used = 0;
      if (const auto text = read_file(thread.path() / "schedstat"); text.has_value())
        (void)std::from_chars(text->data(), text->data() + text->size(), used);
      found.seconds += nanosecond * static_cast<double>(used);
    }
  }
  return found;
}

void Family::settle() {
  constexpr double longest = 0.2;
  const TimePoint end = deadline_in(longest);
  Threads now = threads();
  for (auto pause = std::chrono::microseconds(20); !now.still && seconds_until(end) > 0; pause *= 2) {
    std::this_thread::sleep_for(pause);
    now = threads();
  }
  settled_seconds_ = now.seconds;
}

double Family::worked_since() const {
  return threads().seconds - settled_seconds_;
}

void Family::go_on() {
  if (!stopped_) return;
  signal_all(SIGCONT);
  stopped_ = false;
}

}  // namespace planish
