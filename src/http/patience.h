#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace planish::http {

/// Connections on which no whole request has come: each is ended after so many seconds, however slowly it sends, and
/// the oldest at once where there are more than `most`, so that somebody else always gets through. Thread-safe.
/// Connections are told by whatever names them; their descriptors are open until closed() has returned.
class Patience {
 public:
  Patience(unsigned seconds, unsigned most);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  void opened(const void* connection, int fd);
  /// A whole request is there: it is waited for as long as its answer takes.
  void asked(const void* connection);
  void answered(const void* connection);
  void closed(const void* connection);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    int fd = -1;
    Clock::time_point since;
    bool asked = false, ended = false;
  };
  void watch();
  static void end(Waiting& connection);
  void end_oldest();

  const std::chrono::seconds longest_;
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool stopping_ = false;
  std::map<const void*, Waiting> connections_;
  std::thread watcher_;
};

}  // namespace planish::http
