#include "http/server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/loopback.h"
#include "http/microhttpd_library.h"
#include "http/patience.h"

namespace planish::http {
namespace {

/// What a request's head may take, and what of a body is read at once.
constexpr std::size_t connection_memory = 64U << 10U;

struct Address {
  sockaddr_storage storage{};
  bool v6 = false;
  bool loopback = false;
};

Result<Address> address_of(std::string_view host, std::uint16_t port) {
  Address out;
  out.loopback = planish::is_loopback(host);
  const std::string text = host == "localhost" ? "127.0.0.1" : std::string(host);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    return out;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out.v6 = true;
    return out;
  }
  return fail("bad_address", fmt::format("`{}` is no address to listen at", host),
              "give an IPv4 or IPv6 address: 127.0.0.1, ::1, 0.0.0.0");
}

Response plain(int status, std::string_view kind, std::string_view message) {
  // The two texts are ours, and need no escaping.
  return {status,
          fmt::format(R"({{"error":{{"kind":"{}","message":"{}","hint":""}}}})", kind, message),
          "application/json",
          {}};
}

}  // namespace

Result<bool> is_loopback(std::string_view host) {
  PLANISH_TRY(const auto address, address_of(host, 0));
  return address.loopback;
}

struct Server::State {
  /// One request. Shared by the connection and by whoever answers.
  struct Exchange {
    State* server = nullptr;
    MHD_Connection* connection = nullptr;
    std::mutex mutex;  ///< of what follows
    Request request;
    std::optional<Response> response;
    bool dispatched = false, suspended = false, over = false;

    void answer(Response given) {
      const std::scoped_lock lock(mutex);
      if (response.has_value() || over) return;
      response = std::move(given);
      if (!suspended) return;
      suspended = false;
      server->library->resume_connection(connection);
    }
  };
  class ExchangeReply : public Reply {
   public:
    explicit ExchangeReply(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
    ~ExchangeReply() override { exchange_->answer(plain(500, "internal", "the request was dropped")); }
    void answer(Response response) override { exchange_->answer(std::move(response)); }

   private:
    std::shared_ptr<Exchange> exchange_;
  };
  using Held = std::shared_ptr<Exchange>;

  ServerOptions options;
  const MicrohttpdLibrary* library = nullptr;
  MHD_Daemon* daemon = nullptr;
  std::uint16_t port = 0;
  std::mutex mutex;  ///< of `exchanges`
  std::condition_variable idle;
  std::set<Held> exchanges;
  std::optional<Patience> patience;

  std::string header(MHD_Connection* connection, const char* name) const {
    const char* value = library->lookup_connection_value(connection, MHD_HEADER_KIND, name);
    return value == nullptr ? "" : value;
  }

  Head head_of(MHD_Connection* connection, const char* url, const char* method) const {
    Head out;
    out.method = method;
    out.path = url;
    out.authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    out.content_type = header(connection, MHD_HTTP_HEADER_CONTENT_TYPE);
    out.host = header(connection, MHD_HTTP_HEADER_HOST);
    out.origin = header(connection, MHD_HTTP_HEADER_ORIGIN);
    out.chunked = !header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING).empty();
    if (const std::string length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH); !length.empty()) {
      const auto read = std::from_chars(length.data(), length.data() + length.size(), out.content_length);
      if (read.ec != std::errc() || read.ptr != length.data() + length.size()) out.content_length = -1;
    }
    const char* wait = library->lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "wait");
    if (wait != nullptr) out.query_wait = wait;
    return out;
  }

  MHD_Result send(MHD_Connection* connection, const Response& given) const {
    MHD_Response* response = library->create_response_from_buffer(
        given.body.size(), const_cast<char*>(given.body.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    library->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, given.content_type.c_str());
    for (const auto& [name, value] : given.headers) library->add_response_header(response, name.c_str(), value.c_str());
    const MHD_Result queued = library->queue_response(connection, static_cast<unsigned>(given.status), response);
    library->destroy_response(response);
    return queued;
  }

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method,
                               const char* /*version*/, const char* data, std::size_t* size, void** held) {
    State& state = *static_cast<State*>(self);
    if (*held == nullptr) {
      auto exchange = std::make_shared<Exchange>();
      exchange->server = &state;
      exchange->connection = connection;
      exchange->request.head = state.head_of(connection, url, method);
      {
        const std::scoped_lock lock(state.mutex);
        state.exchanges.insert(exchange);
      }
      *held = new Held(exchange);
      // An answer before the body is read ends the connection: nothing of the body is taken for another request.
      if (auto refused = state.options.gate(exchange->request.head)) return state.send(connection, *refused);
      return MHD_YES;
    }
    const Held exchange = *static_cast<Held*>(*held);
    if (*size > 0) {
      // Never more than the length that the gate has seen.
      exchange->request.body.append(data, *size);
      *size = 0;
      return MHD_YES;
    }
    if (!exchange->dispatched) {
      exchange->dispatched = true;
      state.patience->asked(connection);
      state.options.handler(std::move(exchange->request), std::make_shared<ExchangeReply>(exchange));
    }
    const std::scoped_lock lock(exchange->mutex);
    if (exchange->response.has_value()) return state.send(connection, *exchange->response);
    exchange->suspended = true;
    state.library->suspend_connection(connection);
    return MHD_YES;
  }

  static void on_connection(void* self, MHD_Connection* connection, void** /*context*/,
                            MHD_ConnectionNotificationCode code) {
    State& state = *static_cast<State*>(self);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) return state.patience->closed(connection);
    const auto* info = state.library->get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != nullptr) state.patience->opened(connection, info->connect_fd);
  }

  static void on_completed(void* self, MHD_Connection* connection, void** held, MHD_RequestTerminationCode) {
    State& state = *static_cast<State*>(self);
    state.patience->answered(connection);
    if (*held == nullptr) return;
    const Held exchange = *static_cast<Held*>(*held);
    delete static_cast<Held*>(*held);
    *held = nullptr;
    {
      const std::scoped_lock lock(exchange->mutex);
      exchange->over = true;
    }
    const std::scoped_lock lock(state.mutex);
    state.exchanges.erase(exchange);
    state.idle.notify_all();
  }

  bool wait_until_idle(double seconds) {
    std::unique_lock lock(mutex);
    return idle.wait_until(lock, deadline_in(seconds), [this] { return exchanges.empty(); });
  }

  void stop(double seconds) {
    if (daemon == nullptr) return;
    if (const int listening = library->quiesce_daemon(daemon); listening >= 0) ::close(listening);
    if (!wait_until_idle(seconds)) {
      std::set<Held> left;
      {
        const std::scoped_lock lock(mutex);
        left = exchanges;
      }
      // A connection that waits must not be there when the daemon ends.
      for (const Held& exchange : left) exchange->answer(plain(503, "stopping", "the server is stopping"));
      left.clear();
      (void)wait_until_idle(1);
    }
    library->stop_daemon(daemon);
    daemon = nullptr;
  }
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  state_->stop(0);
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  auto state = std::make_unique<State>();
  PLANISH_TRY(state->library, MicrohttpdLibrary::open());
  PLANISH_TRY(const auto address, address_of(options.host, options.port));
  state->options = std::move(options);
  // Half of the connections may be waited for: whoever sends a request at once finds one of the others.
  state->patience.emplace(state->options.request_seconds, std::max(1U, state->options.connections / 2));
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
  if (address.v6) flags |= MHD_USE_IPv6;
  errno = 0;
  state->daemon = state->library->start_daemon(
      flags, state->options.port, nullptr, nullptr, &State::on_request, state.get(), MHD_OPTION_SOCK_ADDR,
      reinterpret_cast<const sockaddr*>(&address.storage), MHD_OPTION_CONNECTION_LIMIT, state->options.connections,
      MHD_OPTION_CONNECTION_TIMEOUT, state->options.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_memory,
      MHD_OPTION_NOTIFY_COMPLETED, &State::on_completed, state.get(), MHD_OPTION_NOTIFY_CONNECTION,
      &State::on_connection, state.get(), MHD_OPTION_END);
  if (state->daemon == nullptr) {
    return fail("cannot_listen",
                fmt::format("cannot listen at {} port {}: {}", state->options.host, state->options.port,
                            errno != 0 ? std::strerror(errno) : "the library gives no reason"),
                "choose another --port or --host");
  }
  const auto* info = state->library->get_daemon_info(state->daemon, MHD_DAEMON_INFO_BIND_PORT);
  state->port = info == nullptr ? state->options.port : info->port;
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

std::uint16_t Server::port() const {
  return state_->port;
}

void Server::stop(double seconds) {
  state_->stop(seconds);
}

}  // namespace planish::http
