#pragma once

// Include from .cpp files only (mcp/server.h). What `planish mcp` offers, by what it is about.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/mcp/run_children.h"
#include "cli/mcp/warm_evaluator.h"
#include "cli/output.h"
#include "mcp/server.h"
#include "store/store.h"

namespace planish::cli {

/// What the tools share. Thread-safe as its parts are; the store is opened by each call.
struct Workshop {
  Workshop(std::string store_file, std::string patterns_file, double task_timeout, std::vector<std::string> settings)
      : store(std::move(store_file)),
        patterns(std::move(patterns_file)),
        evaluator(task_timeout),
        runs(std::move(settings)) {}
  std::string store, patterns;  ///< files; empty for those in the data folder
  WarmEvaluator evaluator;
  RunChildren runs;
  std::mutex mutex;                           ///< of `trials`
  std::map<std::string, mcp::Answer> trials;  ///< verdicts of this session, by number: "t1"
  int next_trial = 1;
};

/// Open a task, try a candidate, read a trial's verdict again.
std::vector<mcp::Tool> task_tools(Workshop& workshop);
/// Search patterns, show one.
std::vector<mcp::Tool> pattern_tools(Workshop& workshop);
/// List, start, watch and cancel runs; archive, verdicts, shipping.
std::vector<mcp::Tool> run_tools(Workshop& workshop);
mcp::Resources resources_of(Workshop& workshop);

/// The answer of a verb that was run with Output::said; its error where it had one.
Result<mcp::Answer> answer_of(const Said& said);
/// A document for an agent: without raw samples, which are many.
Json without_samples(Json document);

/// A run as its tools give it.
Result<Json> run_summary(Workshop& workshop, const store::Store& store, const store::RunRecord& run);

}  // namespace planish::cli
