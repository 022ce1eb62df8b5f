#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <mutex>

#include "base/clock.h"
#include "base/loopback.h"
#include "llm/curl_library.h"
#include "llm/transport.h"

namespace planish::llm {
namespace {

/// OpenSSL writes to sockets that may be closed. The signal is kept from this thread alone: others, and the commands
/// that write to pipes, want it.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    if (!was_pending_) {
      const timespec now{};
      while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

/// How long the end of a body is waited for after its last event.
constexpr double end_seconds = 0.05;

/// What the callbacks of one transfer see.
struct Transfer {
  const BodySink* sink = nullptr;
  std::size_t most_bytes = 0;
  HttpReply reply;
  std::size_t received = 0;
  TimePoint last_byte, ended_at;
  bool began = false, ended_by_sink = false, too_long = false;
};

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string_view text(data, size * count);
  transfer.last_byte = std::chrono::steady_clock::now();
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (text.starts_with("HTTP/")) {  // also after a 100
    transfer.reply.headers.clear();
    transfer.reply.status = 0;
    if (const auto space = text.find(' '); space != std::string_view::npos) {
      const std::string_view code = text.substr(space + 1);
      std::from_chars(code.data(), code.data() + code.size(), transfer.reply.status);
    }
    transfer.began = transfer.reply.status >= 200;
  } else if (const auto colon = text.find(':');
             colon != std::string_view::npos && transfer.reply.headers.size() < 256) {
    std::string name(text.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string_view value = text.substr(colon + 1);
    while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
    while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
    transfer.reply.headers.emplace_back(std::move(name), value);
  }
  return size * count;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t bytes = size * count;
  transfer.last_byte = std::chrono::steady_clock::now();
  transfer.received += bytes;
  const bool good = transfer.reply.status >= 200 && transfer.reply.status < 300;
  // Of an error only the beginning matters.
  if (!good) {
    if (transfer.reply.body.size() < (64U << 10U)) transfer.reply.body.append(data, bytes);
    transfer.too_long = transfer.received > transfer.most_bytes;
    return transfer.too_long ? 0 : bytes;
  }
  if (transfer.received > transfer.most_bytes) {
    transfer.too_long = true;
    return 0;
  }
  if (!*transfer.sink) {
    transfer.reply.body.append(data, bytes);
  } else if (!transfer.ended_by_sink && !(*transfer.sink)(std::string_view(data, bytes))) {
    transfer.ended_by_sink = true;
    transfer.ended_at = transfer.last_byte;
  }
  return bytes;
}

/// "https://host:port" for messages: without path, as nothing secret may be in it.
std::string origin(const std::string& url) {
  const auto host = url.find("://");
  return url.substr(0, host == std::string::npos ? url.find('/') : url.find('/', host + 3));
}

class CurlTransport : public Transport {
 public:
  ~CurlTransport() override {
    const auto library = CurlLibrary::open();
    for (const Line& line : idle_) {
      (*library)->easy_cleanup(line.easy);
      (*library)->multi_cleanup(line.multi);
    }
  }

  Result<HttpReply> send(const HttpRequest& request, const HttpLimits& limits, const CancelToken* cancel,
                         const BodySink& sink) override {
    PLANISH_TRY(const CurlLibrary* curl, CurlLibrary::open());
    if (cancel != nullptr && cancel->cancelled()) return fail("cancelled", "cancelled before the model was asked");
    const NoPipeSignal no_signal;
    Line line = take(*curl);
    if (line.easy == nullptr || line.multi == nullptr) return fail("model_unreachable", "libcurl has no memory left");
    Transfer transfer;
    transfer.sink = &sink;
    transfer.most_bytes = limits.bytes;
    curl_slist* headers = prepare(*curl, line.easy, request, transfer, limits);
    curl->multi_add_handle(line.multi, line.easy);
    auto result = drive(*curl, line, request, limits, cancel, transfer);
    curl->multi_remove_handle(line.multi, line.easy);
    curl->slist_free_all(headers);
    curl->easy_reset(line.easy);  // forgets headers and body; connections stay with the multi handle
    give(line);
    return result;
  }

 private:
  /// A transfer of its own and the connections that it keeps.
  struct Line {
    CURL* easy = nullptr;
    CURLM* multi = nullptr;
  };

  Line take(const CurlLibrary& curl) {
    {
      std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        const Line line = idle_.back();
        idle_.pop_back();
        return line;
      }
    }
    return {curl.easy_init(), curl.multi_init()};
  }
  void give(Line line) {
    std::scoped_lock lock(mutex_);
    idle_.push_back(line);
  }

  static curl_slist* prepare(const CurlLibrary& curl, CURL* easy, const HttpRequest& request, Transfer& transfer,
                             const HttpLimits& limits) {
    curl_slist* headers = nullptr;
    for (const auto& [name, value] : request.headers) {
      headers = curl.slist_append(headers, fmt::format("{}: {}", name, value).c_str());
    }
    headers = curl.slist_append(headers, "Expect:");  // no round trip before the body
    curl.easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
    curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl.easy_setopt(easy, CURLOPT_USERAGENT, "planish");
    curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(std::clamp(std::min(limits.seconds, 30.0) * 1000, 1.0, 30000.0)));
    curl.easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // a proxy's answer is not the server's
    if (is_loopback(host_of(request.url))) curl.easy_setopt(easy, CURLOPT_NOPROXY, "*");
    if (request.method == "GET") {
      curl.easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    } else {
      curl.easy_setopt(easy, CURLOPT_POST, 1L);
      curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      curl.easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
    }
    curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, &on_header);
    curl.easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, &on_body);
    curl.easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
    return headers;
  }

  static Result<HttpReply> drive(const CurlLibrary& curl, const Line& line, const HttpRequest& request,
                                 const HttpLimits& limits, const CancelToken* cancel, Transfer& transfer) {
    const std::string place = origin(request.url);
    const TimePoint start = std::chrono::steady_clock::now();
    transfer.last_byte = start;
    const auto since = [](TimePoint then) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
    };
    while (true) {
      int running = 0;
      curl.multi_perform(line.multi, &running);
      int left = 0;
      if (const CURLMsg* message = curl.multi_info_read(line.multi, &left);
          message != nullptr && message->msg == CURLMSG_DONE) {
        return ended(curl, line, message->data.result, place, transfer);
      }
      // A connection whose answer was read to its end can be used again; some servers leave the end open.
      if (transfer.ended_by_sink && since(transfer.ended_at) > end_seconds) return std::move(transfer.reply);
      if (cancel != nullptr && cancel->cancelled()) return fail("cancelled", "cancelled while a model was asked");
      const double total = limits.seconds - since(start);
      const double quiet =
          (transfer.began ? limits.stall_seconds : limits.first_byte_seconds) - since(transfer.last_byte);
      if (total <= 0)
        return fail("model_timeout", fmt::format("{} did not answer within {:g} s", place, limits.seconds));
      if (quiet <= 0) {
        return transfer.began
                   ? fail("model_stalled", fmt::format("{} went silent in the middle of an answer, for {:g} s", place,
                                                       limits.stall_seconds))
                   : fail("model_stalled",
                          fmt::format("{} did not begin to answer within {:g} s", place, limits.first_byte_seconds));
      }
      const double slice = std::min({total, quiet, 0.05});  // how long a cancelled call goes on
      curl.multi_poll(line.multi, nullptr, 0, std::max(1, static_cast<int>(slice * 1000)), nullptr);
    }
  }

  static Result<HttpReply> ended(const CurlLibrary& curl, const Line& line, CURLcode code, const std::string& place,
                                 Transfer& transfer) {
    if (code == CURLE_OK || transfer.ended_by_sink) return std::move(transfer.reply);
    if (transfer.too_long)
      return fail("model_too_long", fmt::format("{} sent more than {} bytes", place, transfer.most_bytes));
    const char* reason = curl.easy_strerror(code);
    curl_off_t sent = 0;
    curl.easy_getinfo(line.easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    if (transfer.began || sent > 0)
      return fail("model_cut", fmt::format("the connection to {} ended before the answer did: {}", place, reason));
    return fail("model_unreachable", fmt::format("cannot reach {}: {}", place, reason),
                "is the server running, and base_url right? planish doctor --models looks at each");
  }

  std::mutex mutex_;
  std::vector<Line> idle_;
};

}  // namespace

std::string_view HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::unique_ptr<Transport> make_curl_transport() {
  return std::make_unique<CurlTransport>();
}

}  // namespace planish::llm
