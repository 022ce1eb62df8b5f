#include "session/progress.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace planish;
using namespace planish::session;

namespace {

/// stderr is something else while this lives.
class Redirected {
 public:
  explicit Redirected(int to) : kept_(::dup(STDERR_FILENO)) {
    std::fflush(stderr);
    ::dup2(to, STDERR_FILENO);
  }
  ~Redirected() {
    std::fflush(stderr);
    ::dup2(kept_, STDERR_FILENO);
    ::close(kept_);
  }

 private:
  int kept_;
};

std::string drain(int from) {
  ::fcntl(from, F_SETFL, O_NONBLOCK);
  std::string out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(from, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<std::size_t>(n));
  return out;
}

/// What a terminal of this width shows in the end: enough of one to follow what Progress writes.
std::vector<std::string> screen(const std::string& bytes, std::size_t width) {
  std::vector<std::string> rows(1);
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\033') {
      std::size_t end = i + 2;
      while (end < bytes.size() && bytes[end] >= '0' && bytes[end] <= '9') ++end;
      const std::size_t n = end > i + 2 ? std::stoul(bytes.substr(i + 2, end - i - 2)) : 1;
      if (bytes[end] == 'A') row -= std::min(row, n);
      if (bytes[end] == 'J') {
        rows.resize(row + 1);
        rows[row].resize(std::min(rows[row].size(), column));
      }
      i = end;
    } else if (c == '\r') {
      column = 0;
    } else if (c == '\n') {
      if (++row == rows.size()) rows.emplace_back();
      column = 0;
    } else {
      if ((static_cast<unsigned char>(c) & 0xc0U) == 0x80U) continue;  // the rest of a character
      REQUIRE(column < width);                                         // it would wrap
      rows[row].resize(std::max(rows[row].size(), column + 1), ' ');
      rows[row][column++] = static_cast<unsigned char>(c) < 0x80U ? c : '?';
    }
  }
  return rows;
}

void go_on(Progress& progress, FakeClock& clock) {
  progress.phase(Phase::search, "searching 2 regions", 40);
  for (int i = 0; i < 30; ++i) {
    clock.advance(std::chrono::seconds(1));
    progress.left(40.0 - i);
    if (i % 10 == 9) {
      progress.ended({"dedup", "duplicate", "r0"});
    } else if (i % 10 == 8) {
      progress.ended({"test", "wrong", "r0", -1, "mutate", i});
    } else {
      progress.ended({"bench", "ok", "r0", i % 3, i % 2 == 0 ? "step" : "mutate", i});
    }
    if (i == 5) progress.best("r0", 2, 6);
    if (i == 6) progress.best("r1", 0.5, 0);
  }
}

}  // namespace

TEST_CASE("on a terminal a few lines are redrawn in place, none of them wider than it") {
  ::setenv("TERM", "xterm", 1);
  for (const int width : {120, 40}) {
    int master = -1, slave = -1;
    winsize size{24, static_cast<unsigned short>(width), 0, 0};
    REQUIRE(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
    std::string during, after;
    FakeClock clock;
    {
      Redirected redirected(slave);
      Progress progress(LiveLines::detect(false), clock);
      go_on(progress, clock);
      std::fflush(stderr);
      during = drain(master);
      progress.note("a note");
      progress.finish();
      std::fflush(stderr);
      after = during + drain(master);
    }
    ::close(master);
    ::close(slave);
    auto rows = screen(during, static_cast<std::size_t>(width));
    REQUIRE(rows.size() == 4);
    CHECK(rows[0] == "[4/7] searching 2 regions, about 40 s");
    if (width == 120) {
      CHECK(rows[1] == "  11 s left | 30 tried, 27 compiled, 27 tested, 24 timed, 3 duplicate, 3 wrong | 60 a minute");
      CHECK(rows[2] == "  r0 best 2 ms (PyTorch's operators 6 ms), 3 cells | r1 best 0.5 ms");
      CHECK(rows[3] == "  27 agents at work: mutate 56 %, step 44 %");
    } else {
      CHECK(rows[1].ends_with("?"));
    }
    rows = screen(after, static_cast<std::size_t>(width));
    std::erase(rows, "");
    CHECK(rows == std::vector<std::string>{"[4/7] searching 2 regions, about 40 s", "a note"});
  }
}

TEST_CASE("elsewhere plain lines come now and then, without control characters; quiet means nothing") {
  ::setenv("TERM", "xterm", 1);
  for (const bool quiet : {false, true}) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    FakeClock clock;
    {
      Redirected redirected(ends[1]);
      Progress progress(LiveLines::detect(quiet), clock);
      go_on(progress, clock);
      progress.finish();
      std::fflush(stderr);
    }
    const std::string text = drain(ends[0]);
    ::close(ends[0]);
    ::close(ends[1]);
    CHECK(text.find('\033') == std::string::npos);
    CHECK(text.find('\r') == std::string::npos);
    CHECK(std::ranges::count(text, '\n') == (quiet ? 0 : 4));  // the phase, and every ten seconds
  }
}

TEST_CASE("a phase whose length is known has a bar on a terminal, until it takes longer") {
  ::setenv("TERM", "xterm", 1);
  int master = -1, slave = -1;
  REQUIRE(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  FakeClock clock;
  std::string text;
  {
    Redirected redirected(slave);
    Progress progress(LiveLines::detect(false), clock);
    progress.phase(Phase::ship, "shipping", 20);
    for (const int number : {3, 6, 12}) {
      const std::string status = "data set " + std::to_string(number);
      clock.advance(std::chrono::seconds(7));
      progress.status({.text = status, .number = number, .all = 13});
      clock.advance(std::chrono::seconds(1));
      progress.ended({"bench", "ok", "r0"});
    }
    std::fflush(stderr);
    text = drain(master);
    progress.finish();
  }
  ::close(master);
  ::close(slave);
  CHECK(text.find("[########------------] 8 s of about 20 s, data set 3") != std::string::npos);
  CHECK(text.find("[################----] 16 s of about 20 s, data set 6") != std::string::npos);
  CHECK(text.find("] 24 s") == std::string::npos);
  CHECK(text.find("24 s, data set 12 [################----]") != std::string::npos);
}

TEST_CASE("what is measured in a phase says how long it takes, where its beginning could not") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  FakeClock clock;
  {
    Redirected redirected(ends[1]);
    Progress progress(LiveLines::Mode::plain, clock);
    progress.phase(Phase::check, "checking");
    clock.advance(std::chrono::seconds(11));
    progress.status("trying data");
    clock.advance(std::chrono::seconds(3));
    progress.status({.text = "trying other data", .seconds = 26});
    clock.advance(std::chrono::seconds(8));
    progress.status("timing it");
    clock.advance(std::chrono::seconds(20));
    progress.status("still timing it");
  }
  const std::string text = drain(ends[0]);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(text.find("checking: 11 s, trying data\n") != std::string::npos);
  CHECK(text.find("checking: 22 s of about 40 s, timing it\n") != std::string::npos);
  CHECK(text.find("checking: 42 s, still timing it\n") != std::string::npos);
}

TEST_CASE("a part of a phase that takes long shows its own seconds, whatever its details are") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  FakeClock clock;
  {
    Redirected redirected(ends[1]);
    Progress progress(LiveLines::Mode::plain, clock);
    progress.phase(Phase::claim, "compiling");
    progress.status("the first mode");
    clock.advance(std::chrono::seconds(12));
    progress.status("the second mode: the first took 12 s");
    clock.advance(std::chrono::seconds(11));
    progress.status("the second mode: the first took 12 s, 80 s are left");
    clock.advance(std::chrono::seconds(10));
    progress.status("the third mode");
  }
  const std::string text = drain(ends[0]);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(text.find("compiling: 12 s, the second mode: the first took 12 s\n") != std::string::npos);
  CHECK(text.find("compiling: 23 s, the second mode (11 s): the first took 12 s, 80 s are left\n") !=
        std::string::npos);
  CHECK(text.find("compiling: 33 s, the third mode\n") != std::string::npos);
}

TEST_CASE("who interrupts reads what is waited for, and no time that is left") {
  ::setenv("TERM", "xterm", 1);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  FakeClock clock;
  const CancelToken cancel;
  {
    Redirected redirected(ends[1]);
    Progress progress(LiveLines::detect(false), clock, cancel);
    const auto later = [&] {
      clock.advance(std::chrono::seconds(11));
      progress.ended({"bench", "ok", "r0"});
    };
    progress.phase(Phase::search, "searching 1 region", 500);
    progress.left(500);
    later();
    cancel.cancel();
    {
      const Progress::Flight one(progress, false), two(progress, false);
      later();
    }
    const Progress::Flight again(progress, true);
    later();
  }
  const std::string text = drain(ends[0]);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(text.find("489 s left | 1 tried") != std::string::npos);
  CHECK(text.find("478 s left") == std::string::npos);
  CHECK(text.find("ending: waits for 2 candidates under way") != std::string::npos);
  CHECK(text.find("ending: measures the best again") != std::string::npos);
}

TEST_CASE("a wait is said at once and once, with what it is for; seconds that are over are not shown as left") {
  ::setenv("TERM", "xterm", 1);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  FakeClock clock;
  {
    Redirected redirected(ends[1]);
    Progress progress(LiveLines::detect(false), clock);
    progress.phase(Phase::capture, "capturing net.py");
    progress.status("importing it");
    clock.advance(std::chrono::seconds(12));
    progress.status("tracing it");
    progress.status("waiting to measure on cpu: a.py (pid 7, user u) is measuring there (1 s so far)");
    progress.status("waiting to measure on cpu: a.py (pid 7, user u) is measuring there (3 s so far)");
    progress.phase(Phase::search, "searching 1 region", 5);
    progress.left(5);
    clock.advance(std::chrono::seconds(20));
    progress.ended({"bench", "ok", "r0"});
    progress.finish();
    std::fflush(stderr);
  }
  const std::string text = drain(ends[0]);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(text.find("[1/7] capturing net.py\n") == 0);
  CHECK(text.find("capturing net.py: 12 s, tracing it\n") != std::string::npos);
  CHECK(text.find("a.py (pid 7, user u)") != std::string::npos);
  CHECK(text.find("3 s so far") == std::string::npos);
  CHECK(text.find("[4/7] searching 1 region, about 5 s (12 s so far)\n") != std::string::npos);
  CHECK(text.find("ending") != std::string::npos);
  CHECK(text.find("0 s left") == std::string::npos);
}
