#include "http/patience.h"

#include <sys/socket.h>

#include <algorithm>

namespace planish::http {

Patience::Patience(unsigned seconds, unsigned most) : longest_(seconds), most_(most), watcher_([this] { watch(); }) {}

Patience::~Patience() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  over_.notify_all();
  watcher_.join();
}

void Patience::end(Waiting& connection) {
  connection.ended = true;
  (void)::shutdown(connection.fd, SHUT_RDWR);
}

void Patience::opened(const void* connection, int fd) {
  const std::scoped_lock lock(mutex_);
  connections_[connection] = {.fd = fd, .since = Clock::now()};
  end_oldest();
}

void Patience::end_oldest() {
  const auto waits = [](const auto& item) { return !item.second.asked && !item.second.ended; };
  if (static_cast<std::size_t>(std::ranges::count_if(connections_, waits)) <= most_) return;
  auto oldest = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (waits(*at) && (oldest == connections_.end() || at->second.since < oldest->second.since)) oldest = at;
  }
  end(oldest->second);
}

void Patience::asked(const void* connection) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = connections_.find(connection); found != connections_.end()) found->second.asked = true;
}

void Patience::answered(const void* connection) {
  const std::scoped_lock lock(mutex_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  found->second.asked = false;
  found->second.since = Clock::now();
}

void Patience::closed(const void* connection) {
  const std::scoped_lock lock(mutex_);
  connections_.erase(connection);
}

void Patience::watch() {
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stopping_; })) {
    const auto now = Clock::now();
    for (auto& [name, connection] : connections_) {
      if (!connection.asked && !connection.ended && now - connection.since > longest_) end(connection);
    }
  }
}

}  // namespace planish::http
