#include <charconv>
#include <sstream>
#include <string_view>

#include "worker/compiler_main/nvrtc.h"

namespace planish::worker {
namespace {

/// The number right before `word` in "Used 8 registers, 256 bytes smem"; 0 where it does not occur.
std::int64_t number_before(std::string_view line, std::string_view word) {
  const auto at = line.find(word);
  if (at == std::string_view::npos) return 0;
  std::size_t end = at;
  while (end > 0 && line[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

}  // namespace

void read_ptxas_report(const std::string& log, const std::string& entry, Compiled& compiled) {
  std::istringstream lines(log);
  std::string line;
  // Helper functions that were not inlined have reports of their own, after the entry's.
  bool ours = false;
  while (std::getline(lines, line)) {
    if (const auto at = line.find("Compiling entry function '"); at != std::string::npos) {
      ours = line.compare(at + 26, entry.size() + 1, entry + "'") == 0;
      continue;
    }
    if (line.find("bytes spill stores") != std::string::npos) {
      if (ours)
        compiled.spill_bytes = number_before(line, "bytes spill stores") + number_before(line, "bytes spill loads");
      continue;
    }
    if (line.find("Used ") != std::string::npos && line.find(" registers") != std::string::npos) {
      if (ours) {
        compiled.registers = number_before(line, " registers");
        compiled.shared_bytes = number_before(line, " bytes smem");
        ours = false;
      }
      continue;
    }
    if (line.starts_with("ptxas info") || line.find("ptxas         .") != std::string::npos) continue;
    if (line.empty() && compiled.log.empty()) continue;
    compiled.log += line + "\n";
  }
}

}  // namespace planish::worker
