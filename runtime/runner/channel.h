#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

/// JSON lines and descriptors over a Unix stream socket. One thread.
namespace planish::runner {

class Channel {
 public:
  explicit Channel(int socket) : socket_(socket) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The next line without its newline; nullopt when the peer is gone (or sends a line of more than 256 MiB).
  std::optional<std::string> read_line();
  /// The oldest descriptor that has arrived and was not taken yet, now the caller's; -1 when there is none.
  int take_descriptor();
  /// Adds the newline. False when the peer is gone.
  bool write_line(std::string_view line);

 private:
  bool receive();

  int socket_;
  std::string buffer_;
  std::size_t searched_ = 0;  ///< no newline before this position
  std::deque<int> descriptors_;
};

}  // namespace planish::runner
