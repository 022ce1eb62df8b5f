#include "session/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "worker/printable.h"

namespace planish::session {
namespace {

constexpr auto terminal_every = std::chrono::milliseconds(100);
constexpr auto plain_every = std::chrono::seconds(10);
/// Regions shown on a line; the rest is counted.
constexpr std::size_t most_regions = 4;
constexpr std::size_t most_operators = 4;
/// Seconds from which on what is done within a phase shows its own.
constexpr double long_part = 5;

double seconds_since(TimePoint then, const Clock& clock) {
  return std::chrono::duration<double>(clock.now() - then).count();
}

/// A status without its details: "waiting for memory: 1 GB is free".
std::string what_of(const std::string& status) {
  return status.substr(0, status.find(':'));
}

}  // namespace

Progress::Progress(Mode mode, const Clock& clock, CancelToken cancel)
    : out_(mode), clock_(clock), cancel_(std::move(cancel)), last_(clock.now()), began_(clock.now()) {}
Progress::~Progress() {
  ticker_.request_stop();
  if (ticker_.joinable()) ticker_.join();
  finish();
}

void Progress::phase(Phase phase, const std::string& text, double estimate) {
  begin(fmt::format("[{}/{}] {}", number(phase), phase_count, text), text, estimate);
  const std::scoped_lock lock(mutex_);
  phase_ = phase;
}

void Progress::step(const std::string& text, double estimate) {
  begin(text, text, estimate);
}

void Progress::begin(const std::string& title, const std::string& text, double estimate) {
  std::string line = title;
  if (estimate >= 1) line += fmt::format(", about {:.0f} s", estimate);
  const double since = seconds_since(began_, clock_);
  if (since >= 1) line += fmt::format(" ({:.0f} s so far)", since);
  const std::scoped_lock lock(mutex_);
  out_.stay(worker::printable(line), Style::heading);
  phase_began_ = clock_.now();
  last_ = phase_began_;
  estimate_ = estimate;
  doing_ = worker::printable(text);
  status_.clear();
}

Progress::Flight::Flight(Progress& progress, bool full) : progress_(progress), full_(full) {
  const std::scoped_lock lock(progress_.mutex_);
  ++progress_.flying_;
  progress_.finals_ += full_ ? 1 : 0;
}
Progress::Flight::~Flight() {
  const std::scoped_lock lock(progress_.mutex_);
  --progress_.flying_;
  progress_.finals_ -= full_ ? 1 : 0;
}

void Progress::status(const WorkReport& report) {
  const std::scoped_lock lock(mutex_);
  if (said_ == report.text) return;
  said_ = report.text;
  // What is behind: of the third of thirteen, two.
  const bool counts = report.number >= 1 && report.number <= report.all;
  part_ = counts ? std::optional(static_cast<double>(report.number - 1) / report.all) : std::nullopt;
  // What was measured since the phase began may tell that it takes longer than could be known then.
  if (report.seconds > 0) estimate_ = std::max(estimate_, seconds_since(phase_began_, clock_) + report.seconds);
  const std::string before = what_of(status_);
  status_ = worker::printable(report.text);  // children, tasks and folders have a say in it
  if (what_of(status_) != before) status_began_ = clock_.now();
  // A wait is said at once, also where lines only come now and then; once for each thing that is waited for.
  if (out_.mode() == Mode::plain && status_.starts_with("waiting")) {
    const std::string what = what_of(status_);
    if (what != waited_for_) out_.stay("  " + status_);
    waited_for_ = what;
  }
  draw();
}

void Progress::tick() {
  if (out_.mode() == Mode::quiet || ticking_) return;
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
  out_.stay(worker::printable(text));
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
  if (doing_.empty() || (!ticking_ && status_.empty())) return {};
  const double seconds = seconds_since(phase_began_, clock_);
  // In plain mode lines stand far from their phase's, so they name it.
  const bool plain = out_.mode() == Mode::plain;
  std::string out = plain ? fmt::format("{}: {:.0f} s", doing_, seconds) : fmt::format("{:.0f} s", seconds);
  if (cancel_.cancelled()) {
    out += ", ending with what was found";
  } else if (estimate_ >= 1 && seconds < estimate_) {
    out += fmt::format(" of about {:.0f} s", estimate_);
    if (!plain) out = fmt::format("{} {}", bar(seconds / estimate_), out);
  }
  if (!status_.empty()) out += ", " + timed_status(seconds);
  if (!status_.empty() && part_ && !plain && !out.starts_with('[')) out += " " + bar(*part_);
  return out;
}

/// What is being done, with its own seconds where it is a part of the phase that takes long.
std::string Progress::timed_status(double phase_seconds) const {
  const double seconds = seconds_since(status_began_, clock_);
  if (seconds < long_part || phase_seconds - seconds < 1) return status_;
  const std::string what = what_of(status_);
  return fmt::format("{} ({:.0f} s){}", what, seconds, status_.substr(what.size()));
}

/// What a search that is over still waits for.
std::string Progress::ending() const {
  if (finals_ > 0) return "ending: measures the best again";
  if (flying_ == 0) return "ending";
  return fmt::format("ending: waits for {} candidate{} under way", flying_, flying_ == 1 ? "" : "s");
}

std::string Progress::counts() const {
  // First what a narrow terminal must not cut.
  std::string out;
  const double left = left_ - seconds_since(left_at_, clock_);
  if (cancel_.cancelled() || (left_ >= 0 && left < 1))
    out = ending() + " | ";
  else if (left_ >= 0)
    out = fmt::format("{:.0f} s left | ", left);
  out += fmt::format("{} tried, {} compiled, {} tested, {} timed", tried_, compiled_, tested_, timed_);
  for (const auto& [outcome, n] : failures_) out += fmt::format(", {} {}", n, outcome);
  const double seconds = std::chrono::duration<double>(clock_.now() - first_).count();
  if (tried_ > 1 && seconds > 0) out += fmt::format(" | {:.0f} a minute", 60 * (tried_ - 1) / seconds);
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
  const Mode mode = out_.mode();
  if (mode == Mode::quiet) return;
  const TimePoint now = clock_.now();
  if (now - last_ < (mode == Mode::terminal ? Duration(terminal_every) : Duration(plain_every))) return;
  last_ = now;
  const std::vector<std::string> text = lines();
  if (text.empty()) return;
  if (mode == Mode::terminal)
    out_.redraw(text);
  else
    out_.stay(fmt::format("  {}", fmt::join(text, " | ")));
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  out_.clear();
}

}  // namespace planish::session
