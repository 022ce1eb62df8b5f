// The order of the folders, from design to code: a folder may include those before it, never one after.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> order{"base",    "llm",     "mcp",      "http",  "database", "ir",          "rewrite",
                                     "program", "codegen", "patterns", "model", "worker",   "evaluate",    "judge",
                                     "coder",   "search",  "store",    "ship",  "suite",    "environment", "cli"};

int rank(const std::string& folder) {
  const auto found = std::find(order.begin(), order.end(), folder);
  return found == order.end() ? -1 : static_cast<int>(found - order.begin());
}

/// What is wrong with a file of `folder` that includes `header`; empty when nothing is.
std::string problem(const std::string& folder, const std::string& header) {
  if (header.starts_with("runtime/") || header.find("planish_rt.h") != std::string::npos)
    return "the runtime is reached through processes only";
  if (header == "nlohmann/json.hpp") return {};
  const std::string target = header.substr(0, header.find('/'));
  if (rank(target) < 0) return {};  // not ours
  if (rank(target) > rank(folder)) return fmt::format("{} comes after {}", target, folder);
  if ((folder == "search" || folder == "store") && (target == "worker" || target == "evaluate") &&
      header != "evaluate/evaluation.h") {
    return fmt::format("{} knows no process: only evaluate/evaluation.h is allowed", folder);
  }
  return {};
}

std::vector<std::string> includes_of(const fs::path& path) {
  std::vector<std::string> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#' || line.find("include") == std::string::npos) continue;
    const auto open = line.find_first_of("\"<");
    if (open == std::string::npos) continue;
    const auto close = line.find_first_of("\">", open + 1);
    if (close != std::string::npos) found.push_back(line.substr(open + 1, close - open - 1));
  }
  return found;
}

}  // namespace

TEST_CASE("the rule itself bites") {
  CHECK(problem("base", "base/result.h").empty());
  CHECK(problem("search", "coder/coder.h").empty());
  CHECK(problem("store", "evaluate/evaluation.h").empty());
  CHECK(problem("cli", "evaluate/session.h").empty());
  CHECK(problem("ir", "fmt/core.h").empty());
  CHECK(!problem("base", "ir/graph.h").empty());
  CHECK(!problem("worker", "evaluate/evaluation.h").empty());
  CHECK(!problem("search", "worker/runner.h").empty());
  CHECK(!problem("store", "evaluate/api.h").empty());
  CHECK(!problem("cli", "planish_rt.h").empty());
}

TEST_CASE("no folder includes one after it") {
  const fs::path root = fs::path(PLANISH_SOURCE_DIR) / "src";
  for (const std::string& folder : order) CHECK_MESSAGE(fs::is_directory(root / folder), "no folder " << folder);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp" && extension != ".cc") continue;
    const fs::path relative = fs::relative(entry.path(), root);
    const std::string folder = relative.begin()->string();
    CHECK_MESSAGE(rank(folder) >= 0, "unknown folder " << folder);
    ++files;
    for (const std::string& header : includes_of(entry.path())) {
      const std::string wrong = problem(folder, header);
      CHECK_MESSAGE(wrong.empty(), relative.string() << " includes " << header << ": " << wrong);
      const bool json = header.starts_with("nlohmann/json.hpp");
      // The one header that brings it in says so; all others keep to .cpp files.
      if (json && extension == ".h")
        CHECK_MESSAGE(relative.string() == "base/json.h", relative.string() << " includes the JSON library");
    }
  }
  CHECK(files > 50);
}
