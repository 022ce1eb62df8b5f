#include "worker/memory_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <utility>

#include "worker/printable.h"

namespace planish::worker {
namespace {

constexpr std::array<std::string_view, 3> result_names{"clean", "found", "not_run"};
/// One is enough to refuse; more help whoever looks for the fault.
constexpr std::size_t most_findings = 20;
constexpr std::size_t most_text = 300;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

/// "… access at name(float*)+0x160 in file.cu:6", "at 0x160 in name(float*)", "at name:0x160": the name, without
/// parameters; empty where the line names no kernel.
std::string_view kernel_in(std::string_view line) {
  std::string_view rest;
  if (line.starts_with("at ")) {
    rest = line.substr(3);
  } else if (const std::size_t at = line.find(" at "); at != std::string_view::npos) {
    rest = line.substr(at + 4);
  }
  if (rest.starts_with("0x")) {
    const std::size_t in = rest.find(" in ");
    if (in == std::string_view::npos) return {};
    rest = rest.substr(in + 4);
  }
  // Template arguments may hold brackets and blanks; the offset comes behind all of them.
  const std::size_t end = std::min({rest.find("+0x"), rest.find(":0x"), rest.find(" in ")});
  rest = trimmed(rest.substr(0, end));
  if (rest.ends_with(')')) rest = rest.substr(0, rest.rfind('('));
  return rest;
}

/// The number behind `word`; -1 where it is not there.
std::int64_t number_after(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = trimmed(line.substr(at + word.size()));
  std::int64_t value = -1;
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return value;
}

std::string short_text(std::string_view text) {
  return printable(std::string(text.substr(0, most_text)));
}

}  // namespace

std::string_view name(MemoryCheck::Result result) {
  return result_names[static_cast<std::size_t>(result)];
}

std::optional<MemoryCheck::Result> memory_result_from_name(std::string_view text) {
  const auto found = std::ranges::find(result_names, text);
  if (found == result_names.end()) return std::nullopt;
  return static_cast<MemoryCheck::Result>(found - result_names.begin());
}

MemoryCheck read_memory_report(std::string_view tool, std::string_view output, std::string_view mark) {
  MemoryCheck check;
  check.tool = tool;
  std::int64_t errors = -1;
  std::string said;                  // the tool's own trouble
  MemoryFinding* current = nullptr;  // whose indented lines these are
  std::vector<MemoryFinding> found;
  for (std::size_t begin = 0; begin < output.size();) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    std::string_view line = output.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(mark)) continue;
    line.remove_prefix(mark.size());
    const bool indented = line.starts_with("  ");
    line = trimmed(line);
    if (indented) {
      if (current != nullptr && current->kernel.empty()) current->kernel = short_text(kernel_in(line));
      continue;
    }
    current = nullptr;
    if (line.empty() || line == "COMPUTE-SANITIZER") continue;
    if (line.starts_with("ERROR SUMMARY:")) {
      errors = number_after(line, "ERROR SUMMARY:");
    } else if (line.starts_with("RACECHECK SUMMARY:")) {
      // Warnings are hazards without consequence, such as two threads that write one value.
      errors = number_after(line, "displayed (");
      if (errors < 0) errors = number_after(line, "RACECHECK SUMMARY:");
    } else if (line.starts_with("Error:") && !line.starts_with("Error: Race") &&
               !line.starts_with("Error: Potential")) {
      if (said.empty()) said = short_text(trimmed(line.substr(6)));
    } else if (!line.starts_with("Warning:")) {
      found.push_back({short_text(kernel_in(line)), short_text(line)});
      current = &found.back();
    }
  }
  // What stands between the findings (that output was cut short, say) names no kernel.
  std::erase_if(found, [](const MemoryFinding& one) { return one.kernel.empty(); });
  // What was described before the report broke off was found all the same.
  check.whole = errors >= 0;
  if (errors < 0) {
    check.reason = said.empty() ? "compute-sanitizer did not get to the end of its report" : said;
    if (found.empty()) return check;
  }
  if (errors == 0) {
    // With a summary and without a call there is nothing that it could have looked at.
    check.result = said.empty() ? MemoryCheck::Result::clean : MemoryCheck::Result::not_run;
    check.reason = said;
    return check;
  }
  // A summary may count what it did not print, and a failed call of the module that it only noticed.
  if (found.empty() && !said.empty()) {
    check.reason = said;
    return check;
  }
  if (found.empty()) found.push_back({"", fmt::format("{} errors, none of them described", errors)});
  if (found.size() > most_findings) found.resize(most_findings);
  check.result = MemoryCheck::Result::found;
  check.findings = std::move(found);
  return check;
}

MemoryCheck beside_reference(MemoryCheck check, const MemoryCheck& reference) {
  if (check.result != MemoryCheck::Result::found) return check;
  if (reference.result == MemoryCheck::Result::not_run) {
    check.reason = fmt::format("the task's own Model could not be run under it ({})", reference.reason);
    return check;
  }
  const std::size_t before = check.findings.size();
  std::erase_if(check.findings, [&](const MemoryFinding& one) {
    return std::ranges::any_of(reference.findings,
                               [&](const MemoryFinding& theirs) { return theirs.kernel == one.kernel; });
  });
  if (check.findings.size() < before)
    check.reason = fmt::format("{} findings are in kernels of which it says the like for the task's own Model",
                               before - check.findings.size());
  if (!check.findings.empty()) return check;
  check.result = check.whole ? MemoryCheck::Result::clean : MemoryCheck::Result::not_run;
  if (!check.whole) check.reason = "compute-sanitizer did not get to the end of its report; " + check.reason;
  return check;
}

}  // namespace planish::worker
