#include "cli/suite_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "worker/printable.h"

namespace planish::cli {
namespace {

constexpr auto plain_every = std::chrono::seconds(30);
/// Jobs shown at a time; the rest is counted.
constexpr std::size_t most_lines = 6;
/// So many must have run before anything is said of the rest.
constexpr std::size_t least_known = 2;

std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  return seconds < 6000 ? fmt::format("{:.0f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

SuiteProgress::SuiteProgress(LiveLines::Mode mode, std::size_t jobs, std::size_t places, CancelToken cancel)
    : out_(mode),
      jobs_(jobs),
      places_(std::max<std::size_t>(places, 1)),
      cancel_(std::move(cancel)),
      began_(real_clock().now()) {
  if (mode == LiveLines::Mode::quiet) return;
  ticker_ = std::jthread([this](std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      ended_.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
      if (!stop.stop_requested()) draw();
    }
  });
}

SuiteProgress::~SuiteProgress() {
  ticker_.request_stop();
  if (ticker_.joinable()) ticker_.join();
}

void SuiteProgress::begins(std::size_t job, const std::string& name, const Workplace& place) {
  const std::scoped_lock lock(mutex_);
  const TimePoint now = real_clock().now();
  at_work_[job] = {worker::printable(name), &place, now, now};
  if (out_.mode() == LiveLines::Mode::terminal) return;  // its line is redrawn from now on
  out_.stay(title(job) + at_work_[job].name + (place.device().empty() ? "" : " on " + place.device()));
}

void SuiteProgress::ends(std::size_t job, const std::string& name, const std::string& became, bool ran) {
  const std::scoped_lock lock(mutex_);
  ++done_;
  if (const auto one = at_work_.find(job); one != at_work_.end()) {
    if (ran) {
      ++ran_;
      seconds_ += seconds_since(one->second.began);
    }
    at_work_.erase(one);
  }
  out_.stay(title(job) + worker::printable(fmt::format("{}: {}", name, became)));
}

void SuiteProgress::puts_off(std::size_t job, const std::string& name, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  at_work_.erase(job);
  out_.stay(title(job) + worker::printable(fmt::format("{}: {}", name, why)));
}

std::string SuiteProgress::title(std::size_t job) const {
  return fmt::format("[{}/{}] ", job + 1, jobs_);
}

std::string SuiteProgress::line(std::size_t job, const AtWork& one) const {
  std::string out = fmt::format("{}{}: {}", title(job), one.name, duration_text(seconds_since(one.began)));
  if (const std::string said = one.place->said(); !said.empty()) out += ", " + worker::printable(said);
  return out;
}

std::string SuiteProgress::total() const {
  std::string out = fmt::format("{} of {} done in {}", done_, jobs_, duration_text(seconds_since(began_)));
  if (cancel_.cancelled()) return out + fmt::format(", ending: waits for {} to keep what they found", at_work_.size());
  if (ran_ < least_known) return out;
  // Jobs at work have part of their time behind them; one that takes longer than the mean is about to end, for all we
  // know.
  const double mean = seconds_ / static_cast<double>(ran_);
  double work = mean * static_cast<double>(jobs_ - done_ - at_work_.size());
  for (const auto& [job, one] : at_work_) work += std::max(mean - seconds_since(one.began), 0.0);
  return out + fmt::format(", about {} left", duration_text(work / static_cast<double>(places_)));
}

void SuiteProgress::draw() {
  if (out_.mode() == LiveLines::Mode::plain) {
    for (auto& [job, one] : at_work_) {
      if (real_clock().now() - one.said < plain_every) continue;
      one.said = real_clock().now();
      out_.stay("  " + line(job, one));
    }
    return;
  }
  std::vector<std::string> lines;
  for (const auto& [job, one] : at_work_) {
    if (lines.size() == most_lines) break;
    lines.push_back(line(job, one));
  }
  if (at_work_.size() > most_lines) lines.push_back(fmt::format("and {} more", at_work_.size() - most_lines));
  lines.push_back(fmt::format("{} {}", bar(static_cast<double>(done_) / static_cast<double>(jobs_)), total()));
  out_.redraw(lines);
}

}  // namespace planish::cli
