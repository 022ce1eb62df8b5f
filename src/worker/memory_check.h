#pragma once

#include <cstddef>
#include <string>

#include "base/cancel.h"
#include "worker/memory_report.h"
#include "worker/toolbox.h"

/// NVIDIA's compute-sanitizer on calls of a module: accesses outside of what was allocated, races in shared memory,
/// reads of what nobody wrote. No numbers are compared here.
namespace planish::worker {

/// The tools that are asked, each in a process of its own.
inline constexpr const char* memory_tools[] = {"memcheck", "racecheck", "initcheck"};

struct MemoryJob {
  std::string tool;
  std::string task, path;   ///< as Runner::load_module takes them; an empty path is the task's own Model
  int calls = 2;            ///< of its forward, on the task's own data
  std::size_t max_rss = 0;  ///< resident bytes, 0 for no limit
};

/// Runs it as a guest (docs/sandbox.md), with the tool in the guest's place: both are ended at the limit.
/// `tools.compute_sanitizer` must be there. What it prints is believed as far as its lines carry a mark that is drawn
/// anew: a module that looks for it can still forge them, and would have to want to.
MemoryCheck check_memory(const Toolbox& tools, const MemoryJob& job, double limit_seconds,
                         const CancelToken* cancel = nullptr);

}  // namespace planish::worker
