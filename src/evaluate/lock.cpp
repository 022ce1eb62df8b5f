#include "evaluate/lock.h"

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/work_scope.h"

namespace planish {
namespace {

namespace fs = std::filesystem;

constexpr double silent_seconds = 0.5;  ///< a wait so short is not worth a word
constexpr double word_every = 2;

thread_local double waited_seconds = 0;

fs::path folder() {
  const char* given = std::getenv("PLANISH_LOCK_DIR");
  return given != nullptr && *given != '\0' ? fs::path(given) : fs::path("/tmp");
}

std::string user() {
  passwd entry{};
  passwd* found = nullptr;
  char text[1024];
  if (::getpwuid_r(::geteuid(), &entry, text, sizeof text, &found) == 0 && found != nullptr) return found->pw_name;
  return fmt::format("{}", ::geteuid());
}

/// Polls one lock until the deadline, and says what it waits for.
class Wait {
 public:
  Wait(std::string uuid, fs::path holder, DeviceUse use, double timeout_seconds)
      : uuid_(std::move(uuid)),
        holder_(std::move(holder)),
        use_(use),
        timeout_(timeout_seconds),
        limit_(work_seconds(timeout_seconds)),
        deadline_(deadline_in(limit_)),
        began_(real_clock().now()) {}
  ~Wait() { waited_seconds += seconds(); }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  Result<FileLock> take(const fs::path& file, FileLock::Hold hold) {
    auto pause = std::chrono::microseconds(200);
    while (true) {
      auto lock = FileLock::try_acquire(file, hold);
      if (lock.has_value() || lock.error().kind != "busy") return lock;
      const double waited = seconds();
      if (seconds_until(deadline_) <= 0) {
        return fail(limit_ < timeout_ ? ErrorKind("out_of_time") : ErrorKind("timeout"),
                    fmt::format("waited {:.0f} s to {} on {}: {}", waited, purpose(), uuid_, who()),
                    "wait for it, or stop it");
      }
      if (waited >= next_word_) {
        report_work(fmt::format("waiting to {} on {}: {} ({:.0f} s so far)", purpose(), uuid_, who(), waited));
        next_word_ = waited + word_every;
        spoke_ = true;
      }
      std::this_thread::sleep_for(pause);
      // Polling keeps the deadline without a signal; short waits stay short, long ones cost nothing.
      pause = std::min(pause * 2, std::chrono::microseconds(5000));
    }
  }
  void over() const {
    if (spoke_) report_work(fmt::format("{} on {} after a wait of {:.0f} s", doing(), uuid_, seconds()));
  }

 private:
  double seconds() const { return seconds_since(began_); }
  const char* purpose() const { return use_ == DeviceUse::measure ? "measure" : "run"; }
  const char* doing() const { return use_ == DeviceUse::measure ? "measuring" : "running"; }
  /// Only who measures is one, and says who.
  std::string who() const {
    const std::string text = FileLock::description(holder_);
    return text.empty() ? "others run something there" : text + " is measuring there";
  }

  std::string uuid_;
  fs::path holder_;
  DeviceUse use_;
  double timeout_, limit_;
  TimePoint deadline_, began_;
  double next_word_ = silent_seconds;
  bool spoke_ = false;
};

}  // namespace

Result<FileLock> lock_device(const std::string& uuid, const std::string& who, double timeout_seconds, DeviceUse use) {
  std::string name = "planish-";
  for (unsigned char c : uuid) name += std::isalnum(c) != 0 || c == '-' ? static_cast<char>(c) : '_';
  const fs::path file = folder() / (name + ".lock");
  Wait wait(uuid, file, use, timeout_seconds);
  // One waits for the device, all others for being that one: the device goes to who has waited, not to who let it go
  // a moment ago and is quicker.
  PLANISH_TRY(const auto next, wait.take(folder() / (name + ".next.lock"), FileLock::Hold::alone));
  const bool alone = use == DeviceUse::measure;
  PLANISH_TRY(auto lock, wait.take(file, alone ? FileLock::Hold::alone : FileLock::Hold::shared));
  // One of many only takes away what the last who measured has written.
  lock.describe(alone ? fmt::format("{} (pid {}, user {})", who, ::getpid(), user()) : std::string());
  wait.over();
  return lock;
}

double device_wait_seconds() {
  return waited_seconds;
}

}  // namespace planish
