#include "evaluate/memory_verdict.h"

#include <fmt/core.h>

#include <utility>

namespace planish {
namespace {

Outcome outcome_of_tool(const std::string& tool) {
  if (tool == "racecheck") return Outcome::race;
  if (tool == "initcheck") return Outcome::uninitialized_read;
  return Outcome::invalid_access;
}

}  // namespace

void add_memory_checks(std::vector<worker::MemoryCheck> checks, VerifyReply& reply) {
  reply.memory = std::move(checks);
  for (const worker::MemoryCheck& check : reply.memory) {
    if (!reply.verified || check.result != worker::MemoryCheck::Result::found) continue;
    const worker::MemoryFinding& first = check.findings.front();
    reply.verified = false;
    reply.times.reset();
    reply.outcome = outcome_of_tool(check.tool);
    reply.message = fmt::format("compute-sanitizer {}: {}", check.tool, first.text);
    if (!first.kernel.empty() && first.text.find(first.kernel) == std::string::npos)
      reply.message += fmt::format(" in {}", first.kernel);
    if (check.findings.size() > 1) reply.message += fmt::format(", and {} more", check.findings.size() - 1);
  }
}

}  // namespace planish
