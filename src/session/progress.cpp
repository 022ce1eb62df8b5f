#include "session/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "worker/printable.h"

namespace planish::session {
namespace {

constexpr auto terminal_every = std::chrono::milliseconds(100);
constexpr auto plain_every = std::chrono::seconds(10);
/// Regions shown on a line; the rest is counted.
constexpr std::size_t most_regions = 4;
constexpr std::size_t most_operators = 4;

double seconds_since(TimePoint then, const Clock& clock) {
  return std::chrono::duration<double>(clock.now() - then).count();
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

Progress::Mode Progress::detect(bool quiet) {
  if (quiet) return Mode::quiet;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return ::isatty(STDERR_FILENO) == 1 && !dumb ? Mode::terminal : Mode::plain;
}

Progress::Progress(Mode mode, const Clock& clock)
    : mode_(mode), clock_(clock), last_(clock.now()), began_(clock.now()) {}
Progress::~Progress() {
  ticker_.request_stop();
  if (ticker_.joinable()) ticker_.join();
  finish();
}

void Progress::clear_lines() {
  if (drawn_ > 1) fmt::print(stderr, "\033[{}A", drawn_ - 1);
  if (drawn_ > 0) std::fputs("\r\033[J", stderr);
  drawn_ = 0;
}

void Progress::phase(Phase phase, const std::string& text, double estimate) {
  std::string line = fmt::format("[{}/{}] {}", number(phase), phase_count, text);
  if (estimate >= 1) line += fmt::format(", about {:.0f} s", estimate);
  const double since = seconds_since(began_, clock_);
  if (since >= 1) line += fmt::format(" ({:.0f} s so far)", since);
  note(line);
  const std::scoped_lock lock(mutex_);
  phase_ = phase;
  phase_began_ = clock_.now();
  last_ = phase_began_;
  estimate_ = estimate;
  doing_ = text;
  status_.clear();
}

void Progress::status(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (said_ == text) return;
  said_ = text;
  status_ = worker::printable(text);  // children, tasks and folders have a say in it
  // A wait is said at once, also where lines only come now and then; once for each thing that is waited for.
  if (mode_ == Mode::plain && status_.starts_with("waiting")) {
    const std::string what = status_.substr(0, status_.find(':'));
    if (what != waited_for_) fmt::print(stderr, "  {}\n", status_);
    waited_for_ = what;
    std::fflush(stderr);
  }
  draw();
}

void Progress::tick() {
  if (mode_ == Mode::quiet || ticking_) return;
  ticking_ = true;
  ticker_ = std::jthread([this](std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      ended_.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
      if (!stop.stop_requested()) draw();
    }
  });
}

void Progress::note(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (mode_ == Mode::quiet) return;
  clear_lines();
  fmt::print(stderr, "{}\n", worker::printable(text));
  std::fflush(stderr);
}

void Progress::ended(const Ended& one) {
  const std::scoped_lock lock(mutex_);
  if (tried_ == 0) first_ = clock_.now();
  ++tried_;
  const bool tested = one.tier == "test" || one.tier == "bench";
  compiled_ += tested || one.tier == "compile" ? 1 : 0;
  tested_ += tested ? 1 : 0;
  if (one.outcome == "ok") {
    timed_ += one.tier == "bench" ? 1 : 0;
    if (one.cell >= 0) regions_[std::string(one.region)].cells.insert(one.cell);
  } else {
    ++failures_[std::string(one.outcome)];
  }
  if (!one.by.empty()) ++operators_[std::string(one.by)];
  if (one.agent >= 0) agents_.insert(one.agent);
  draw();
}

void Progress::best(const std::string& region, double ms, double fallback_ms) {
  const std::scoped_lock lock(mutex_);
  Region& known = regions_[region];
  known.ms = ms;
  known.fallback_ms = fallback_ms;
  draw();
}

void Progress::left(double seconds) {
  const std::scoped_lock lock(mutex_);
  left_ = seconds;
  left_at_ = clock_.now();
}

std::string Progress::activity() const {
  if (!phase_ || (!ticking_ && status_.empty())) return {};
  const double seconds = seconds_since(phase_began_, clock_);
  // In plain mode lines stand far from their phase's, so they name it.
  std::string out =
      mode_ == Mode::plain ? fmt::format("{}: {:.0f} s", doing_, seconds) : fmt::format("{:.0f} s", seconds);
  if (estimate_ >= 1 && seconds < estimate_) out += fmt::format(" of about {:.0f} s", estimate_);
  if (!status_.empty()) out += ", " + status_;
  return out;
}

std::string Progress::counts() const {
  std::string out = fmt::format("{} tried, {} compiled, {} tested, {} timed", tried_, compiled_, tested_, timed_);
  for (const auto& [outcome, n] : failures_) out += fmt::format(", {} {}", n, outcome);
  const double seconds = std::chrono::duration<double>(clock_.now() - first_).count();
  if (tried_ > 1 && seconds > 0) out += fmt::format(" | {:.0f} a minute", 60 * (tried_ - 1) / seconds);
  const double left = left_ - seconds_since(left_at_, clock_);
  if (left_ >= 0 && left >= 1) out += fmt::format(" | {:.0f} s left", left);
  if (left_ >= 0 && left < 1) out += " | ending";
  return out;
}

std::string Progress::regions() const {
  std::string out;
  std::size_t shown = 0, more = 0;
  for (const auto& [name, region] : regions_) {
    if (region.ms <= 0) continue;
    if (shown == most_regions) {
      ++more;
      continue;
    }
    out += fmt::format("{}{} best {:.4g} ms", shown++ == 0 ? "" : " | ", name, region.ms);
    if (region.fallback_ms > 0) out += fmt::format(" (PyTorch's operators {:.4g} ms)", region.fallback_ms);
    if (!region.cells.empty())
      out += fmt::format(", {} cell{}", region.cells.size(), region.cells.size() == 1 ? "" : "s");
  }
  if (more > 0) out += fmt::format(" | and {} more", more);
  return out;
}

std::string Progress::agents() const {
  if (operators_.empty()) return {};
  std::vector<std::pair<int, std::string_view>> order;
  int all = 0;
  for (const auto& [name, n] : operators_) {
    order.emplace_back(-n, name);
    all += n;
  }
  std::ranges::sort(order);
  if (order.size() > most_operators) order.resize(most_operators);
  std::vector<std::string> parts;
  for (const auto& [n, name] : order) parts.push_back(fmt::format("{} {:.0f} %", name, -100.0 * n / all));
  const std::string who =
      agents_.empty() ? "" : fmt::format("{} agent{} at work: ", agents_.size(), agents_.size() == 1 ? "" : "s");
  return fmt::format("{}{}", who, fmt::join(parts, ", "));
}

std::vector<std::string> Progress::lines() const {
  std::vector<std::string> out{activity()};
  if (tried_ > 0 && (!phase_ || *phase_ <= Phase::compose)) {
    for (auto line : {counts(), regions(), agents()}) out.push_back(std::move(line));
  }
  std::erase(out, "");
  return out;
}

void Progress::draw() {
  if (mode_ == Mode::quiet) return;
  const TimePoint now = clock_.now();
  if (now - last_ < (mode_ == Mode::terminal ? Duration(terminal_every) : Duration(plain_every))) return;
  last_ = now;
  const std::vector<std::string> text = lines();
  if (text.empty()) return;
  if (mode_ == Mode::terminal) {
    clear_lines();
    const std::size_t width = terminal_width();
    for (const std::string& line : text) fmt::print(stderr, "{}  {}", drawn_++ == 0 ? "" : "\n", cut(line, width - 2));
  } else {
    fmt::print(stderr, "  {}\n", fmt::join(text, " | "));
  }
  std::fflush(stderr);
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  clear_lines();
  std::fflush(stderr);
}

}  // namespace planish::session
