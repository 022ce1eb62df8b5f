#include "base/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/workflow_commands.h"

namespace planish {
namespace {

/// Lines that are redrawn now; −1 while a thread writes. There is one stderr, and a signal may come in any thread.
std::atomic<int> drawn{0};
constexpr int writing = -1;

/// Nobody redraws any more.
std::atomic<bool> over{false};

bool terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void write_all(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, bytes.data(), bytes.size());
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// From the last of so many lines to the beginning of the first, and nothing below it.
std::string erase(int lines) {
  if (lines <= 0) return {};
  return (lines > 1 ? fmt::format("\033[{}A", lines - 1) : std::string()) + "\r\033[J";
}

/// One write that leaves so many lines to redraw. No signal handler runs in this thread meanwhile, and one in another
/// thread waits.
template <typename Text>
void write_as(int lines, Text text) {
  sigset_t interrupts, before;
  ::sigemptyset(&interrupts);
  ::sigaddset(&interrupts, SIGINT);
  ::sigaddset(&interrupts, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &interrupts, &before);
  std::fflush(stderr);
  const int was = drawn.exchange(writing);
  write_all(text(std::max(was, 0)));
  drawn = lines;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// A redrawn line must not wrap.
std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  return 80;
}

/// At most so many bytes, which is no fewer columns than characters; never half a character.
std::string cut(std::string text, std::size_t width) {
  if (text.size() < width) return text;
  std::size_t end = width - 2;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

}  // namespace

bool coloured() {
  if (!environment("NO_COLOR").empty()) return false;
  for (const char* name : {"CLICOLOR_FORCE", "FORCE_COLOR"}) {
    if (const auto force = environment(name); !force.empty() && force != "0") return true;
  }
  return environment("CLICOLOR") != "0" && terminal();
}

std::string styled(Style style, std::string_view text) {
  constexpr const char* codes[] = {"", "1", "1;31", "1;36", "2"};
  if (style == Style::plain || text.empty() || !coloured()) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", codes[static_cast<int>(style)], text);
}

std::string bar(double part) {
  constexpr std::size_t width = 20;
  const auto full = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * width);
  return "[" + std::string(full, '#') + std::string(width - full, '-') + "]";
}

LiveLines::Mode LiveLines::detect(bool quiet) {
  if (quiet) return Mode::quiet;
  return terminal() ? Mode::terminal : Mode::plain;
}

LiveLines::LiveLines(Mode mode) : mode_(mode) {
  over = false;
}

void LiveLines::stay(std::string_view line, Style style) {
  if (mode_ == Mode::quiet) return;
  // Where it is no terminal it may be the log of a runner.
  const std::string text = mode_ == Mode::plain ? without_workflow_commands(line) : std::string(line);
  write_as(0, [&](int was) { return erase(was) + styled(style, text) + "\n"; });
}

void LiveLines::redraw(const std::vector<std::string>& lines) {
  if (mode_ != Mode::terminal || over) return;
  const std::size_t width = terminal_width();
  write_as(static_cast<int>(lines.size()), [&](int was) {
    std::string out = erase(was);
    for (const std::string& line : lines)
      out += fmt::format("{}  {}", &line == &lines.front() ? "" : "\n", styled(Style::dim, cut(line, width - 2)));
    return out;
  });
}

void LiveLines::clear() {
  if (mode_ == Mode::terminal && drawn != 0) write_as(0, erase);
}

void end_live_lines() {
  over = true;
  if (drawn != 0) write_as(0, erase);
}

void write_over_live_lines(std::string_view text) noexcept {
  constexpr int most_waits = 50;
  // Whoever writes ends by itself, unless the terminal stands still; that is no reason to say nothing.
  for (int i = 0; i < most_waits && drawn == writing; ++i) ::poll(nullptr, 0, 1);
  const int lines = drawn.exchange(0);
  for (int i = 1; i < lines; ++i) write_all("\033[A");
  write_all(lines > 0 ? "\r\033[J" : "\n");
  write_all(text);
}

}  // namespace planish
