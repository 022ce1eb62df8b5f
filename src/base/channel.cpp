#include "base/channel.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace planish {
namespace {

std::unexpected<Error> socket_error(std::string_view doing) {
  const int number = errno;
  if (number == EPIPE || number == ECONNRESET)
    return fail("closed", fmt::format("cannot {}: the other side is gone", doing));
  return fail("io", fmt::format("cannot {}: {}", doing, std::strerror(number)));
}

/// Waits until the descriptor is ready, in slices where a token must be looked at.
Status wait_ready(int fd, short events, TimePoint deadline, const CancelToken* cancel, std::string_view doing) {
  while (true) {
    if (cancel != nullptr && cancel->cancelled())
      return fail("cancelled", fmt::format("cancelled while waiting to {}", doing));
    const double left = seconds_until(deadline);
    double milliseconds = std::min(std::ceil(left * 1000), 3.6e6);
    if (cancel != nullptr) milliseconds = std::min(milliseconds, 50.0);
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(milliseconds));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return socket_error(doing);
    if (seconds_until(deadline) <= 0)
      return fail("timeout", fmt::format("the deadline passed while waiting to {}", doing));
  }
}

Result<sockaddr_un> address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path) {
    return fail("io", fmt::format("socket path is longer than {} bytes: {}", sizeof address.sun_path - 1, text),
                "set XDG_RUNTIME_DIR or TMPDIR to a shorter folder");
  }
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return address;
}

}  // namespace

Channel::Channel(UniqueFd socket) : socket_(std::move(socket)) {}

Result<std::pair<Channel, UniqueFd>> Channel::pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return socket_error("make a socket pair");
  // The kernel says who sent what: a child's word on its number would be in its own namespace, and its own.
  const int yes = 1;
  (void)::setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
  return std::pair<Channel, UniqueFd>{Channel(UniqueFd(ends[0])), UniqueFd(ends[1])};
}

Result<Channel> Channel::connect(const std::filesystem::path& path) {
  PLANISH_TRY(const sockaddr_un address, address_of(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return socket_error("make a socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail("closed", fmt::format("nobody listens at {}: {}", path.string(), std::strerror(errno)));
  }
  return Channel(std::move(fd));
}

Status Channel::send(std::string_view line, std::span<const int> fds, TimePoint deadline) {
  if (!socket_) return fail("closed", "the channel is closed");
  if (fds.size() > max_waiting_fds || fds.size() > fds_a_batch * line.size()) {
    return fail("bad_message", fmt::format("{} descriptors in one message", fds.size()));
  }
  if (line.find('\n') != std::string_view::npos) return fail("bad_message", "a message holds a newline");
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * fds_a_batch)> control{};
  bool newline_sent = false;
  while (!newline_sent) {
    char newline = '\n';
    const auto batch = fds.first(std::min(fds.size(), fds_a_batch));
    // While more batches are to come, one byte at a time carries them.
    const bool more = fds.size() > batch.size();
    std::array<iovec, 2> parts{iovec{const_cast<char*>(line.data()), more ? 1 : line.size()},
                               iovec{&newline, more ? 0U : 1U}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = 2;
    if (!batch.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(sizeof(int) * batch.size());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * batch.size());
      std::memcpy(CMSG_DATA(header), batch.data(), sizeof(int) * batch.size());
    }
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return socket_error("send");
      PLANISH_CHECK(wait_ready(socket_.get(), POLLOUT, deadline, nullptr, "send"));
      continue;
    }
    fds = fds.subspan(batch.size());  // a batch travels with the first byte of what it was sent with
    newline_sent = static_cast<std::size_t>(n) > line.size();
    line.remove_prefix(std::min(line.size(), static_cast<std::size_t>(n)));
  }
  return {};
}

pid_t Channel::peer() const {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

Result<std::string> Channel::receive(TimePoint deadline, const CancelToken* cancel) {
  if (!socket_) return fail("closed", "the channel is closed");
  while (true) {
    if (const auto end = buffer_.find('\n', scanned_); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      scanned_ = 0;
      return line;
    }
    scanned_ = buffer_.size();
    if (buffer_.size() > line_limit_)
      return fail("bad_message", fmt::format("a message is longer than {} MiB", line_limit_ >> 20U));
    PLANISH_CHECK(wait_ready(socket_.get(), POLLIN, deadline, cancel, "receive"));
    // Receive no more descriptors than the control block holds; the kernel closes the rest and says so.
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * fds_a_batch) + CMSG_SPACE(sizeof(ucred))> control{};
    std::array<char, 65536> block;
    iovec part{block.data(), block.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) continue;
      return socket_error("receive");
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET) continue;
      if (header->cmsg_type == SCM_CREDENTIALS) {
        ucred who{};
        std::memcpy(&who, CMSG_DATA(header), sizeof who);
        sender_ = who.pid;
      }
      if (header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        fds_.emplace_back(fd);
      }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0 || fds_.size() > max_waiting_fds) {
      fds_.clear();
      return fail("bad_message", "more descriptors arrived than a message may carry");
    }
    if (n == 0) return fail("closed", "the other side closed the channel");
    buffer_.append(block.data(), static_cast<std::size_t>(n));
  }
}

Status Channel::send_raw(std::string_view bytes) {
  if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
      static_cast<ssize_t>(bytes.size()))
    return {};
  return socket_error("send");
}

Result<std::vector<UniqueFd>> Channel::take_fds(std::size_t n) {
  if (n > fds_.size())
    return fail("bad_message", fmt::format("the message names {} descriptors, {} arrived", n, fds_.size()));
  std::vector<UniqueFd> taken;
  for (std::size_t i = 0; i < n; ++i) {
    taken.push_back(std::move(fds_.front()));
    fds_.pop_front();
  }
  return taken;
}

void Channel::close() {
  socket_.reset();
  fds_.clear();
}

void Channel::shutdown() {
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

Result<Listener> Listener::listen(const std::filesystem::path& path) {
  PLANISH_TRY(const sockaddr_un address, address_of(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return socket_error("make a socket");
  ::unlink(path.c_str());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), 16) != 0) {
    return fail("io", fmt::format("cannot listen at {}: {}", path.string(), std::strerror(errno)));
  }
  return Listener(std::move(fd), path);
}

Listener::~Listener() {
  if (socket_) ::unlink(path_.c_str());
}

Result<Channel> Listener::accept(TimePoint deadline) {
  while (true) {
    PLANISH_CHECK(wait_ready(socket_.get(), POLLIN, deadline, nullptr, "accept a client"));
    UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd) return Channel(std::move(fd));
    if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) return socket_error("accept a client");
  }
}

}  // namespace planish
