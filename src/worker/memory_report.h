#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What NVIDIA's compute-sanitizer said of calls of a module, as plain data.
namespace planish::worker {

struct MemoryFinding {
  std::string kernel;  ///< as the tool names it; may be empty
  std::string text;    ///< the tool's first line of it
};

/// What one tool said.
struct MemoryCheck {
  enum class Result { clean, found, not_run };
  std::string tool;
  Result result = Result::not_run;
  std::vector<MemoryFinding> findings;
  std::string reason;  ///< why it was not run; or what is to be known of how it was
  double seconds = 0;
  bool whole = true;  ///< the tool got to the end of its report
};
std::string_view name(MemoryCheck::Result result);
std::optional<MemoryCheck::Result> memory_result_from_name(std::string_view text);

/// What the tool's lines say. `output`: all that the process printed; `mark` begins each line of the tool's.
MemoryCheck read_memory_report(std::string_view tool, std::string_view output, std::string_view mark);

/// Without the findings in kernels that another report, of the task's own Model, has findings in as well: libraries
/// read memory in ways that the tool does not follow.
MemoryCheck beside_reference(MemoryCheck check, const MemoryCheck& reference);

}  // namespace planish::worker
