#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace planish::cli {
namespace {

constexpr auto terminal_every = std::chrono::milliseconds(100);
constexpr auto plain_every = std::chrono::seconds(10);
/// A redrawn line must not wrap.
constexpr std::size_t line_width = 110;

}  // namespace

Progress::Mode Progress::detect(bool quiet) {
  if (quiet) return Mode::quiet;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return ::isatty(STDERR_FILENO) == 1 && !dumb ? Mode::terminal : Mode::plain;
}

Progress::Progress(Mode mode, const Clock& clock) : mode_(mode), clock_(clock), last_(clock.now()) {}
Progress::~Progress() {
  finish();
}

void Progress::clear_line() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::phase(const std::string& text) {
  note(text);
}

void Progress::note(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (mode_ == Mode::quiet) return;
  clear_line();
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

void Progress::count(const std::string& outcome) {
  const std::scoped_lock lock(mutex_);
  ++counts_[outcome];
  draw(false);
}

void Progress::best(const std::string& region, double ms, double fallback_ms) {
  const std::scoped_lock lock(mutex_);
  best_[region] = {ms, fallback_ms};
  draw(false);
}

void Progress::left(double seconds) {
  const std::scoped_lock lock(mutex_);
  left_ = seconds;
}

std::string Progress::line() const {
  std::string out;
  int total = 0;
  for (const auto& [outcome, n] : counts_) total += n;
  out += fmt::format("{} tried", total);
  for (const auto& [outcome, n] : counts_) out += fmt::format(", {} {}", n, outcome);
  for (const auto& [region, best] : best_) {
    out += fmt::format(" | {} {:.4g} ms", region, best.ms);
    if (best.fallback_ms > 0) out += fmt::format(" ({:.2f}x)", best.fallback_ms / best.ms);
  }
  if (left_ >= 0) out += fmt::format(" | {:.0f} s left", left_);
  return out;
}

void Progress::draw(bool force) {
  if (mode_ == Mode::quiet) return;
  const TimePoint now = clock_.now();
  if (!force && now - last_ < (mode_ == Mode::terminal ? Duration(terminal_every) : Duration(plain_every))) return;
  last_ = now;
  std::string text = line();
  if (mode_ == Mode::terminal) {
    if (text.size() > line_width) text = text.substr(0, line_width - 1) + "…";
    fmt::print(stderr, "\r\033[K  {}", text);
    drawn_ = true;
  } else {
    fmt::print(stderr, "  {}\n", text);
  }
  std::fflush(stderr);
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  clear_line();
  std::fflush(stderr);
}

}  // namespace planish::cli
