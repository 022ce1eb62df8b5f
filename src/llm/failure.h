#pragma once

#include <expected>
#include <optional>

#include "base/result.h"
#include "llm/chat.h"
#include "llm/secret.h"
#include "llm/transport.h"

namespace planish::llm {

/// Why there is no answer. Kinds: `model_unreachable`, `model_stalled`, `model_timeout`, `model_cut`, `model_too_long`,
/// `model_bad_reply` (malformed JSON, half a stream, HTML), `model_unauthorized`, `model_unknown`, `model_rejected`
/// (the request is wrong), `model_context` (too long for the model), `model_quota` (money or a plan's limit),
/// `model_rate_limited`, `model_overloaded`, `spending_cap`, `cassette_miss`, `cassette_corrupt`, `no_libcurl`,
/// `cancelled`.
struct Failure {
  Error error;
  bool retry = false;                  ///< the same may work later
  bool elsewhere = false;              ///< another model may answer
  bool billed = false;                 ///< a server may have begun to work on it: what it cost is not known
  std::optional<double> wait_seconds;  ///< what the server asked for
};
using Answer = std::expected<ChatReply, Failure>;

/// Of an error of the transport.
Failure transport_failure(Error error);
/// Of an answer that makes no sense.
Failure bad_reply(std::string what, std::string hint = {});
/// Of a web page in place of a document; `body` begins with its first character that is no space.
Failure html_reply(std::string_view body);
/// Of a status that is not 2xx. `place` names the model; `wall_seconds` is what dates are compared with.
Failure status_failure(const HttpReply& reply, const std::string& place, double wall_seconds);
/// Of an error document in a stream or in a 200. `type` and `message` as the server wrote them.
Failure error_failure(int status, const std::string& type, const std::string& message, const std::string& place);
/// The same without the key, whatever a server echoed.
Failure redacted(Failure failure, const Secret& key);

}  // namespace planish::llm
