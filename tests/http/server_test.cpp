#include "http/server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "http/patience.h"

using namespace planish;

namespace {

UniqueFd connected(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{60, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

void say(const UniqueFd& fd, std::string_view text) {
  (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

/// Empty where the other side has closed.
std::string heard(const UniqueFd& fd) {
  std::string text(4096, '\0');
  const ssize_t n = ::recv(fd.get(), text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

http::ServerOptions answering() {
  http::ServerOptions options;
  options.gate = [](const http::Head&) { return std::nullopt; };
  options.handler = [](const http::Request&, const std::shared_ptr<http::Reply>& reply) {
    reply->answer({200, "{}", "application/json", {}});
  };
  return options;
}

constexpr std::string_view whole = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::string_view part = "GET /healthz HTTP/1.1\r\nHost: loc";

}  // namespace

TEST_CASE("connections that never ask keep nobody out") {
  auto options = answering();
  options.connections = 8;
  const auto server = http::Server::start(std::move(options));
  REQUIRE(server.has_value());
  std::vector<UniqueFd> trickling;
  for (int k = 0; k < 20; ++k) {
    trickling.push_back(connected((*server)->port()));
    say(trickling.back(), part);
    const UniqueFd honest = connected((*server)->port());
    say(honest, whole);
    CHECK(heard(honest).starts_with("HTTP/1.1 200"));
  }
  CHECK(heard(trickling.front()).empty());
  // The newest is still listened to.
  say(trickling.back(), "alhost\r\n\r\n");
  CHECK(heard(trickling.back()).starts_with("HTTP/1.1 200"));
}

TEST_CASE("a request has a deadline, and its answer has none") {
  auto options = answering();
  options.request_seconds = 1;
  std::shared_ptr<http::Reply> kept;
  options.handler = [&kept](const http::Request&, const std::shared_ptr<http::Reply>& reply) { kept = reply; };
  const auto server = http::Server::start(std::move(options));
  REQUIRE(server.has_value());
  const UniqueFd waiting = connected((*server)->port()), slow = connected((*server)->port());
  say(waiting, whole);
  say(slow, part);
  CHECK(heard(slow).empty());
  REQUIRE(kept != nullptr);
  kept->answer({200, "{}", "application/json", {}});
  CHECK(heard(waiting).starts_with("HTTP/1.1 200"));
}
