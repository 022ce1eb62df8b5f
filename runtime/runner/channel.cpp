#include "channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace planish::runner {
namespace {
constexpr std::size_t max_line = std::size_t{256} << 20;
constexpr std::size_t max_descriptors = 64;
}  // namespace

Channel::~Channel() {
  for (const int fd : descriptors_) close(fd);
}

std::optional<std::string> Channel::read_line() {
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = buffer_.size();
    if (buffer_.size() > max_line || !receive()) return std::nullopt;
  }
}

bool Channel::receive() {
  static thread_local std::vector<char> chunk(std::size_t{1} << 16);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * max_descriptors)];
  iovec piece{chunk.data(), chunk.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n = 0;
  do {
    n = recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      descriptors_.push_back(fd);
    }
  }
  buffer_.append(chunk.data(), static_cast<std::size_t>(n));
  return true;
}

int Channel::take_descriptor() {
  if (descriptors_.empty()) return -1;
  const int fd = descriptors_.front();
  descriptors_.pop_front();
  return fd;
}

bool Channel::write_line(std::string_view line) {
  std::string text(line);
  text += '\n';
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace planish::runner
