#pragma once

#include <filesystem>

#include "base/result.h"
#include "evaluate/api.h"

namespace planish {

struct ServeOptions {
  std::filesystem::path socket;
  double first_client_seconds = 30;  ///< ends with `timeout` when nobody comes
  double idle_seconds = 0;           ///< stays for so long after its last client
};

/// Answers the evaluator's methods on a Unix socket until the last client has gone, or one has asked it to `stop` (it
/// then ends with those that it has): one thread a client connection, and
/// one a request, so that a client may ask several things at once; answers carry the request's id and come in the order
/// they are ready. Sessions that a client opened and did not close are closed when it goes.
Status serve_evaluator(EvaluatorApi& api, const ServeOptions& options);

}  // namespace planish
