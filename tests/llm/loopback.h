#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace planish::llm {

/// A server on a port of the loopback that says what a test tells it to, byte for byte. Each connection is answered
/// once by `answer(request)` and closed. An empty answer: nothing is said, and the connection stays open until the end.
class Loopback {
 public:
  using Answer = std::function<std::string(const std::string& request)>;
  explicit Loopback(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    (void)::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    (void)::listen(listener_, 64);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Loopback() {
    stop_ = true;
    thread_.join();
    for (std::thread& worker : workers_) worker.join();
    for (const int fd : kept_) ::close(fd);
    ::close(listener_);
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  std::string url() const { return fmt::format("http://127.0.0.1:{}/v1", port_); }
  std::vector<std::string> requests() const {
    std::scoped_lock lock(mutex_);
    return requests_;
  }

  static std::string reply(int status, const std::string& body, const std::string& headers = {},
                           const std::string& type = "application/json") {
    return fmt::format("HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n{}\r\n{}",
                       status, type, body.size(), headers, body);
  }
  static std::string stream(const std::string& body) {
    return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + body;
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd entry{listener_, POLLIN, 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) workers_.emplace_back([this, fd] { one(fd); });
    }
  }
  void one(int fd) {
    std::string request;
    std::size_t needed = std::string::npos;
    while (request.size() < needed && !stop_) {
      pollfd entry{fd, POLLIN, 0};
      if (::poll(&entry, 1, 20) <= 0) continue;
      char block[65536];
      const ssize_t n = ::read(fd, block, sizeof block);
      if (n <= 0) break;
      request.append(block, static_cast<std::size_t>(n));
      const auto end = request.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      std::size_t length = 0;
      if (const auto at = request.find("Content-Length: "); at < end) length = std::stoul(request.substr(at + 16));
      needed = end + 4 + length;
    }
    {
      std::scoped_lock lock(mutex_);
      requests_.push_back(request);
    }
    std::string rest = answer_(request);
    std::scoped_lock lock(mutex_);
    if (rest.empty() || rest.ends_with("[keep open]")) {
      if (!rest.empty()) rest.resize(rest.size() - 11);
      (void)!::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      kept_.push_back(fd);
      return;
    }
    std::size_t sent = 0;
    while (sent < rest.size()) {
      const ssize_t n = ::send(fd, rest.data() + sent, rest.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    ::close(fd);
  }
  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::vector<int> kept_;
  std::vector<std::thread> workers_;
  std::thread thread_;
};

}  // namespace planish::llm
