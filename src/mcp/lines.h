#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/cancel.h"

namespace planish::mcp {

/// Lines of a descriptor that is not ours to close. One thread.
class LineReader {
 public:
  LineReader(int fd, std::size_t most_bytes) : fd_(fd), most_(most_bytes) {}
  struct Line {
    std::string text;       ///< without its end
    bool too_long = false;  ///< then the text is empty, and the line was skipped
  };
  /// Nothing at the end, on an error, and when `stop` was cancelled. What no newline ends is no line.
  std::optional<Line> next(const CancelToken& stop);

 private:
  int fd_;
  std::size_t most_;
  std::string buffer_;
  bool skipping_ = false;
};

/// Writes whole lines. Any thread. The process must ignore SIGPIPE.
class LineWriter {
 public:
  LineWriter(int fd, double seconds) : fd_(fd), seconds_(seconds) {}
  /// Waits for a reader that is slow; one that does not read for `seconds`, or has gone, is gone for good.
  void write(std::string_view line);
  bool gone() const { return gone_; }

 private:
  int fd_;
  double seconds_;
  std::mutex mutex_;
  std::atomic<bool> gone_{false};
};

}  // namespace planish::mcp
