#include "base/family.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/subprocess.h"

using namespace planish;

namespace {

/// What a process is doing, by one letter; `-` where there is none.
char state_of(const std::string& pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  const std::size_t at = text.has_value() ? text->rfind(')') : std::string::npos;
  return at == std::string::npos ? '-' : (*text)[at + 2];
}

bool comes_to(const std::string& pid, const std::string& states) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (states.find(state_of(pid)) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::string line_of(Subprocess& process) {
  const auto line = process.channel().receive(deadline_in(30));
  return line.value_or("");
}

}  // namespace

TEST_CASE("all that came of a process stand still together, and go on together") {
  SpawnOptions options;
  // A grandchild that has left the group, and another once it is told to.
  options.command = {"bash", "-c",
                     "setsid sleep 60 & echo $! >&3; read line <&3; (sleep 60 & echo $! >&3; wait); echo done >&3"};
  options.channel = true;
  auto process = Subprocess::spawn(options);
  REQUIRE(process.has_value());
  const std::string first = line_of(*process);
  const std::string self = std::to_string(process->pid());
  {
    Family family(process->pid());
    family.stop();
    CHECK(family.stop_others());
    CHECK_FALSE(family.stop_others());
    CHECK(comes_to(first, "T"));
    CHECK(state_of(self) != 'T');  // it watches over the others
    family.go_on();
    CHECK(comes_to(first, "SR"));
    REQUIRE(process->channel().send("go", {}, deadline_in(30)).has_value());
    const std::string second = line_of(*process);
    family.stop();
    CHECK(family.stop_others());
    CHECK(comes_to(second, "T"));
    CHECK(comes_to(first, "T"));
  }
  CHECK(comes_to(first, "SR"));
  ::kill(static_cast<pid_t>(std::stol(first)), SIGKILL);
}

TEST_CASE("who goes on although it was stopped is seen") {
  SpawnOptions options;
  options.command = {"bash", "-c", "(while :; do :; done) & echo $! >&3; wait"};
  options.channel = true;
  auto process = Subprocess::spawn(options);
  REQUIRE(process.has_value());
  const std::string worker = line_of(*process);
  Family family(process->pid());
  family.stop();
  CHECK(family.stop_others());
  family.settle();
  CHECK(state_of(worker) == 'T');
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(family.worked_since() == 0);
  ::kill(static_cast<pid_t>(std::stol(worker)), SIGCONT);
  for (int tries = 0; tries < 1000 && family.worked_since() <= 0; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(family.worked_since() > 0);
}

TEST_CASE("who works is told from who waits for others") {
  SpawnOptions options;
  options.command = {"bash", "-c", "sleep 60 & echo $! >&3; read line <&3; while :; do :; done & echo $! >&3; wait"};
  options.channel = true;
  auto process = Subprocess::spawn(options);
  REQUIRE(process.has_value());
  REQUIRE(comes_to(line_of(*process), "S"));
  REQUIRE(comes_to(std::to_string(process->pid()), "S"));
  const Family family(process->pid());
  const Family::Use waiting = family.use();
  CHECK(waiting.processes == 2);
  CHECK(waiting.waits);
  REQUIRE(process->channel().send("go", {}, deadline_in(30)).has_value());
  REQUIRE_FALSE(line_of(*process).empty());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Family::Use working = family.use();
  CHECK(working.processes == 3);
  CHECK(working.seconds > waiting.seconds + 0.02);
}
