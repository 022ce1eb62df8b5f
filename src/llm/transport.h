#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"

namespace planish::llm {

/// Names in lower case where they come from a server.
using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "POST";
  std::string url;
  Headers headers;
  std::string body;
};

struct HttpReply {
  int status = 0;
  Headers headers;
  std::string body;
  /// The first header of this name (lower case), or nothing.
  std::string_view header(std::string_view name) const;
};

struct HttpLimits {
  double seconds = 600;             ///< for everything
  double first_byte_seconds = 300;  ///< until the answer begins
  double stall_seconds = 60;        ///< between two pieces of the answer
  std::size_t bytes = 32U << 20U;   ///< of the answer
};

/// Gets each piece of a 2xx answer's body as it arrives; false: the answer is complete, and the rest is of no interest.
using BodySink = std::function<bool(std::string_view)>;

/// One HTTP exchange at a time and thread; thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Any status is a reply. Kinds: `no_libcurl`, `model_unreachable` (nothing was sent that a server could bill),
  /// `model_stalled`, `model_timeout`, `model_cut` (the connection ended before the answer did), `model_too_long`,
  /// `cancelled`. Redirects are not followed: they would take the key elsewhere.
  virtual Result<HttpReply> send(const HttpRequest& request, const HttpLimits& limits, const CancelToken* cancel,
                                 const BodySink& sink) = 0;
};

/// libcurl, opened when first used: a machine without it has everything else. Connections are kept and used again.
/// Each call drives its own transfer in the caller's thread (docs/decisions/0043-language-models.md).
std::unique_ptr<Transport> make_curl_transport();

}  // namespace planish::llm
