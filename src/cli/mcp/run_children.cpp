#include "cli/mcp/run_children.h"

#include <csignal>

#include "base/file.h"
#include "cli/document_in.h"

namespace planish::cli {
namespace {

/// The last line that is for people.
std::string last_line_of(const std::string& output) {
  std::size_t end = output.size();
  while (end > 0) {
    const std::size_t newline = output.rfind('\n', end - 1);
    const std::size_t start = newline == std::string::npos ? 0 : newline + 1;
    if (start < end && output[start] != '{') return output.substr(start, end - start);
    if (start == 0) break;
    end = start - 1;
  }
  return {};
}

}  // namespace

Status RunChildren::start(const std::string& run, std::vector<std::string> arguments) {
  SpawnOptions options;
  options.command = {executable_path().string()};
  options.command.insert(options.command.end(), settings_.begin(), settings_.end());
  options.command.emplace_back("optimize");
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.command.insert(options.command.end(), {"--run-id", run, "--json"});
  options.whole_output = true;
  PLANISH_TRY(auto child, Subprocess::spawn(options));
  const std::scoped_lock lock(mutex_);
  children_.insert_or_assign(run, std::move(child));
  return {};
}

std::optional<RunChildren::State> RunChildren::state(const std::string& run) {
  const std::scoped_lock lock(mutex_);
  const auto found = children_.find(run);
  if (found == children_.end()) return std::nullopt;
  State out;
  const auto ended = found->second.poll();
  // Complete once it was waited for.
  if (ended) (void)found->second.wait(deadline_in(5));
  const std::string output = found->second.output_tail();
  out.running = !ended.has_value();
  out.last_line = last_line_of(output);
  if (ended) {
    out.document = document_in(output);
    out.ended = ended->text();
  }
  return out;
}

bool RunChildren::end(const std::string& run, bool at_once) {
  const std::scoped_lock lock(mutex_);
  const auto found = children_.find(run);
  if (found == children_.end() || found->second.poll()) return false;
  found->second.kill(at_once ? SIGKILL : SIGINT);
  return true;
}

std::vector<std::string> RunChildren::running() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> out;
  for (auto& [run, child] : children_) {
    if (!child.poll()) out.push_back(run);
  }
  return out;
}

}  // namespace planish::cli
