// The order of the folders, from design to code: a folder may include those before it, never one after.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> order{"base",   "llm",      "mcp",         "http",    "database", "backend",
                                     "ir",     "rewrite",  "program",     "codegen", "patterns", "model",
                                     "worker", "evaluate", "judge",       "coder",   "search",   "store",
                                     "ship",   "suite",    "environment", "session", "report",   "cli"};

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
  CHECK(!problem("session", "report/page.h").empty());
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

namespace {

/// A target's or a language's name that something is compared with, in a line of code.
bool compares_a_target(const std::string& line) {
  const std::string code = line.substr(0, line.find("//"));
  for (const char* name : {"\"cuda\"", "\"cpu\"", "\"triton\"", "\"cpp\""}) {
    for (std::size_t at = code.find(name); at != std::string::npos; at = code.find(name, at + 1)) {
      const std::string before = code.substr(0, at), after = code.substr(at + std::string(name).size());
      const auto ends = [&](const char* sign) {
        const std::string spaced = std::string(sign) + " ";
        return before.ends_with(spaced) || after.starts_with(" " + std::string(sign));
      };
      if (ends("==") || ends("!=") || before.ends_with("starts_with(") || before.ends_with("strcmp(")) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("who compares a target's name is found") {
  CHECK(compares_a_target(R"(  if (device.target == "cuda") return;)"));
  CHECK(compares_a_target(R"(  const bool c = "cpu" != target;)"));
  CHECK(compares_a_target(R"(  kernel.language == "triton" ? 2 : 0)"));
  CHECK_FALSE(compares_a_target(R"(  out.language = "cuda";)"));
  CHECK_FALSE(compares_a_target(R"(  int x;  // == "cuda")"));
}

TEST_CASE("no code but a target's own asks for its name") {
  const fs::path root = PLANISH_SOURCE_DIR;
  // These are kinds of pattern collections and of other projects' documents, which have names of their own.
  const std::vector<std::string> others{"src/patterns/", "src/suite/formats/"};
  int files = 0;
  for (const char* folder : {"src", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cc") continue;
      const std::string relative = fs::relative(entry.path(), root).string();
      if (std::ranges::any_of(others, [&](const std::string& prefix) { return relative.starts_with(prefix); }))
        continue;
      ++files;
      std::ifstream file(entry.path());
      std::size_t number = 0;
      for (std::string line; std::getline(file, line);) {
        ++number;
        CHECK_MESSAGE(!compares_a_target(line),
                      fmt::format("{}:{}: {}: ask the target instead (src/backend/backend.h)", relative, number, line));
      }
    }
  }
  CHECK(files > 300);
}

namespace {

/// Rooms: folders at any depth, each for the files that lie in it directly. Which includes lead from one to another.
using Rooms = std::map<std::string, std::map<std::string, std::string>>;

/// A way from a room back to itself, as the includes that make it; empty where there is none.
std::vector<std::string> cycle_through(const Rooms& rooms, const std::string& start) {
  std::set<std::string> seen;
  std::vector<std::string> way;
  const std::function<bool(const std::string&)> walk = [&](const std::string& room) {
    const auto found = rooms.find(room);
    if (found == rooms.end()) return false;
    for (const auto& [next, include] : found->second) {
      way.push_back(include);
      if (next == start) return true;
      if (seen.insert(next).second && walk(next)) return true;
      way.pop_back();
    }
    return false;
  };
  walk(start);
  return way;
}

Rooms rooms_of(const fs::path& root) {
  Rooms out;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp" && extension != ".cc") continue;
    const std::string room = fs::relative(entry.path().parent_path(), root).string();
    for (const std::string& header : includes_of(entry.path())) {
      const std::string other = fs::path(header).parent_path().string();
      if (other == room || other.empty() || !fs::is_directory(root / other)) continue;
      out[room].emplace(other, fmt::format("{} includes {}", fs::relative(entry.path(), root).string(), header));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a cycle is found wherever it is") {
  const Rooms sound{{"a/b", {{"a", "1"}}}, {"a/c", {{"a/b", "2"}, {"a", "3"}}}};
  for (const auto& [room, edges] : sound) CHECK(cycle_through(sound, room).empty());
  const Rooms broken{{"a/b", {{"a", "1"}}}, {"a/c", {{"a/b", "2"}}}, {"a", {{"a/c", "3"}}}};
  for (const auto& [room, edges] : broken) CHECK(cycle_through(broken, room).size() == 3);
}

TEST_CASE("no folders at any depth include each other in a circle") {
  const Rooms rooms = rooms_of(fs::path(PLANISH_SOURCE_DIR) / "src");
  CHECK(rooms.size() > 30);
  CHECK(rooms.contains("codegen/templates/row"));
  CHECK(rooms.at("codegen/lower").contains("codegen"));
  for (const auto& [room, edges] : rooms) {
    const auto cycle = cycle_through(rooms, room);
    CHECK_MESSAGE(cycle.empty(), fmt::format("{} depends on itself: {}", room, fmt::join(cycle, "; ")));
  }
}
