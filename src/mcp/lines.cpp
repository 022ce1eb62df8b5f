#include "mcp/lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.h"

namespace planish::mcp {
namespace {

/// How soon a cancelled reader is noticed.
constexpr int patience_ms = 50;

}  // namespace

std::optional<LineReader::Line> LineReader::next(const CancelToken& stop) {
  std::array<char, 65536> chunk;
  std::size_t scanned = 0;
  while (true) {
    if (const std::size_t end = buffer_.find('\n', scanned); end != std::string::npos) {
      Line line{buffer_.substr(0, end), skipping_ || end > most_};
      buffer_.erase(0, end + 1);
      skipping_ = false;
      if (line.too_long) line.text.clear();
      return line;
    }
    if (buffer_.size() > most_) {
      buffer_.clear();
      skipping_ = true;
    }
    scanned = buffer_.size();
    pollfd waiting{fd_, POLLIN, 0};
    if (stop.cancelled()) return std::nullopt;
    const int ready = ::poll(&waiting, 1, patience_ms);
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (ready <= 0) continue;
    const ssize_t got = ::read(fd_, chunk.data(), chunk.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return std::nullopt;
    buffer_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

void LineWriter::write(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  if (gone_) return;
  std::string all(line);
  all += '\n';
  std::string_view left = all;
  TimePoint deadline = deadline_in(seconds_);
  while (!left.empty()) {
    pollfd waiting{fd_, POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, std::max(0, static_cast<int>(1000 * seconds_until(deadline))));
    if (ready < 0 && errno == EINTR) continue;
    // What fits without waiting: a pipe that has room for less would keep the rest of a longer write.
    const ssize_t put = ready > 0 ? ::write(fd_, left.data(), std::min<std::size_t>(left.size(), 4096)) : -1;
    if (put < 0 && ready > 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (put <= 0) {
      gone_ = true;
      return;
    }
    left.remove_prefix(static_cast<std::size_t>(put));
    deadline = deadline_in(seconds_);
  }
}

}  // namespace planish::mcp
