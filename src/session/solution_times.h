#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/api.h"

namespace planish::session {

/// What a verified solution took, and the baselines of its task. Beside the task's own it was timed in turn
/// (ModuleTimes::beside), each in a process of its own: a solution never shares one with what it is compared with. The
/// modes of torch.compile were timed in turn with eager, once for all solutions; what is gained over them is the
/// product.
struct SolutionTimes {
  ModuleTimes solution;
  ClaimReply baselines;
  std::optional<Roofline> roofline;

  /// Milliseconds of a call: call_ms().
  double solution_ms(const DeviceFacts& device) const;
};

/// Baselines of a task that an earlier solution was timed beside, from `file`; or timed now and written there. An empty
/// `file` keeps nothing. Another task, device, PyTorch or list of modes is timed anew.
Result<ClaimReply> baselines_of(EvaluatorApi& evaluator, const OpenReply& opened, const std::vector<std::string>& modes,
                                const std::filesystem::path& file);

/// The least that the task must move and compute against the solution's time; nothing where it cannot be told.
std::optional<Roofline> roofline_of_solution(const OpenReply& opened, double solution_ms);

/// Fields of the document of `verify`: times_ms, speedup, speedup_best_baseline, best_baseline, gains, beside,
/// headline, roofline.
/// JSON text of an object; all null or empty without times.
std::string times_fields(const std::optional<SolutionTimes>& times, const DeviceFacts& device);
/// Lines for people.
std::string times_text(const SolutionTimes& times, const DeviceFacts& device);

}  // namespace planish::session
