#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace planish {

/// Lines with file descriptors over a Unix stream socket (docs/formats/wire.md). Knows no JSON: a line is text, and the
/// caller, who reads `"fds": n` in it, takes n descriptors from the queue. One thread may send while another receives;
/// no two of the same.
///
/// Error kinds: `timeout` (the deadline passed), `closed` (the other side is gone), `cancelled`, `bad_message` (a line
/// over the limit, more descriptors than may wait, fewer than were asked for), `io`.
class Channel {
 public:
  static constexpr std::size_t max_line_bytes = 256U << 20U;
  static constexpr std::size_t fds_a_batch = 64;
  static constexpr std::size_t max_waiting_fds = 1024;

  Channel() = default;
  explicit Channel(UniqueFd socket);
  /// Two connected ends, close-on-exec.
  static Result<std::pair<Channel, UniqueFd>> pair();
  /// Connects to a listening path.
  static Result<Channel> connect(const std::filesystem::path& path);

  /// Lines that arrive may be so long, max_line_bytes unless said otherwise.
  void set_line_limit(std::size_t bytes) { line_limit_ = bytes; }
  bool is_open() const { return static_cast<bool>(socket_); }
  /// Sends the line (without its newline; it must hold none) and the descriptors, which stay the caller's: 64 with each
  /// byte from the first on.
  Status send(std::string_view line, std::span<const int> fds, TimePoint deadline);
  /// The next whole line, without its newline.
  Result<std::string> receive(TimePoint deadline, const CancelToken* cancel = nullptr);
  /// A few bytes on a connection where the other side waits for them: no deadline, and no line of its own.
  Status send_raw(std::string_view bytes);
  /// Of a pair(): the process that sent what was received last, as the kernel says; 0 where nobody did.
  pid_t sender() const { return sender_; }
  /// The process at the other end: who made the pair, or who listens at the path. 0 where the kernel does not say.
  pid_t peer() const;
  /// n descriptors from the front of the queue.
  Result<std::vector<UniqueFd>> take_fds(std::size_t n);
  /// Descriptors that came and were not taken.
  std::size_t waiting_fds() const { return fds_.size(); }
  int fd() const { return socket_.get(); }
  void close();
  /// Wakes a thread that waits in receive() with `closed`; may be called from any thread.
  void shutdown();

 private:
  UniqueFd socket_;
  std::string buffer_;
  std::size_t scanned_ = 0;
  std::size_t line_limit_ = max_line_bytes;
  pid_t sender_ = 0;
  std::deque<UniqueFd> fds_;
};

/// A socket that waits for clients at a path. The path is replaced if it exists, and removed at the end of the object's
/// life.
class Listener {
 public:
  static Result<Listener> listen(const std::filesystem::path& path);
  Listener(Listener&& other) noexcept = default;
  Listener& operator=(Listener&& other) noexcept = default;
  ~Listener();
  /// `timeout` when nobody came before the deadline.
  Result<Channel> accept(TimePoint deadline);

 private:
  Listener(UniqueFd socket, std::filesystem::path path) : socket_(std::move(socket)), path_(std::move(path)) {}
  UniqueFd socket_;
  std::filesystem::path path_;
};

}  // namespace planish
