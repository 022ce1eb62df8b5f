#pragma once

#include <filesystem>
#include <string>

#include "cli/output.h"
#include "evaluate/api.h"
#include "session/optimize_flow.h"

namespace planish::cli {

/// The plan of `optimize` for this request: captures the task, says which regions it would search, for how long,
/// against what, and where results would go. Nothing is measured, stored or shipped. Errors are those of the capture.
int dry_run(const session::OptimizeRequest& request, const std::filesystem::path& store, EvaluatorApi& evaluator,
            const Output& output);

}  // namespace planish::cli
