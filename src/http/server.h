#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

/// A small HTTP/1.1 server: requests with a bounded body, answers that may come later and from another thread. No TLS:
/// what listens beyond loopback stands behind something that has it.
namespace planish::http {

/// What is known before a body is read.
struct Head {
  std::string method, path;  ///< the path is unescaped, without its query
  std::string authorization, content_type;
  std::string host, origin;         ///< as the client has them; empty where it sends none
  std::string query_wait;           ///< `wait` of the query, as it stands there
  std::int64_t content_length = 0;  ///< bytes that are announced; -1: what is announced is no length
  bool chunked = false;             ///< the length is not announced
};

struct Request {
  Head head;
  std::string body;
};

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Where one answer goes. Thread-safe. A client that has gone hears nothing, and is no error.
class Reply {
 public:
  virtual ~Reply() = default;
  /// The first counts, later ones do nothing.
  virtual void answer(Response response) = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< an address, or `localhost`
  std::uint16_t port = 0;          ///< 0: one that is free
  unsigned connections = 1024;     ///< at once; further ones are closed
  unsigned idle_seconds = 30;      ///< a connection that neither sends nor takes anything for so long is closed
  unsigned request_seconds = 30;   ///< one on which no whole request has come for so long is closed as well
  /// What is wrong with a request, before any of its body is read; nothing lets it in. Called by the server's thread.
  std::function<std::optional<Response>(const Head&)> gate;
  /// Called by the server's thread: must not wait. Who drops the reply unanswered has answered 500.
  std::function<void(Request, std::shared_ptr<Reply>)> handler;
};

/// Whether an address reaches this machine alone. Kind `bad_address` for what is no address.
Result<bool> is_loopback(std::string_view host);

class Server {
 public:
  /// Kinds: `no_libmicrohttpd`, `bad_address`, `cannot_listen`.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  /// Takes no new connections, waits until what is under way was answered and sent, at most so long, and ends.
  void stop(double seconds);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace planish::http
