#pragma once

#include <memory>

#include "base/result.h"
#include "cli/output.h"
#include "evaluate/api.h"

namespace planish::cli {

/// Starts an evaluator process (this program's hidden verb) and connects to it. It ends with its client.
/// Kinds: `environment`, `spawn_failed`, `closed`.
Result<std::unique_ptr<EvaluatorApi>> connect_evaluator(const Output& output);

}  // namespace planish::cli
