#include "ship/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include "backend/backend.h"
#include "base/file.h"
#include "base/hash.h"
#include "program/program.h"
#include "ship/cpu_features.h"

namespace planish::ship {

namespace fs = std::filesystem;

namespace {

/// Neighbours of a task may be packages of packages.
constexpr int deepest = 32;
constexpr std::size_t most_files = 100'000;

}  // namespace

Result<std::vector<fs::path>> files_in(const fs::path& folder) {
  const auto altered = [&](const fs::path& path, const char* what, const char* hint) {
    std::string name = path.lexically_relative(folder).string();
    constexpr std::size_t most = 200;
    if (name.size() > most) name = name.substr(0, most) + "…";
    return fail("altered", fmt::format("{}: {} {}", folder.string(), name, what), hint);
  };
  std::vector<fs::path> found;
  std::error_code error;
  auto it = fs::recursive_directory_iterator(folder, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const auto type = it->symlink_status(error).type();
    if (error) break;
    if (type == fs::file_type::directory) {
      if (it->path().filename() == "__pycache__")
        return altered(it->path(), "is bytecode, which nobody has looked at", "remove it: Python makes it anew");
      if (it.depth() >= deepest)
        return altered(it->path(), "lies deeper than anything that is shipped", "ship it again");
      continue;
    }
    if (type != fs::file_type::regular) return altered(it->path(), "is no plain file", "ship it again");
    if (it->path() != folder / "ship.json") found.push_back(it->path());
    if (found.size() > most_files) return altered(it->path(), "is one of very many files", "ship it again");
  }
  if (error == std::errc::filename_too_long)
    return altered(folder / "…", "lies deeper than anything that is shipped", "ship it again");
  if (error) return std::unexpected(file_error(error.value(), "read", folder));
  return found;
}

std::uintmax_t most_bytes(const std::string& path) {
  constexpr std::uintmax_t constant = std::uintmax_t{64} << 30U, other = std::uintmax_t{256} << 20U;
  return path.starts_with("blobs/") ? constant : other;
}

Result<std::map<std::string, std::string>> digests(const fs::path& folder) {
  std::map<std::string, std::string> found;
  PLANISH_TRY(const auto files, files_in(folder));
  for (const fs::path& file : files) {
    const std::string path = file.lexically_relative(folder).generic_string();
    PLANISH_TRY(found[path], digest_of_file(file, most_bytes(path)));
  }
  return found;
}

namespace {

/// The instruction sets of this CPU that a compiler with its `-march` may have used.
std::vector<std::string> all_cpu_flags() {
  std::vector<std::string> found;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(std::min(line.find(':') + 1, line.size())));
    constexpr std::array<std::string_view, 11> prefixes{"avx",   "fma",  "bmi", "sse4_",  "ssse3", "f16c",
                                                        "movbe", "gfni", "abm", "popcnt", "amx"};
    for (std::string word; words >> word;) {
      for (std::string_view prefix : prefixes) {
        if (word.starts_with(prefix)) {
          found.push_back(word);
          break;
        }
      }
    }
    break;
  }
  return found;
}

/// What the graph says of each tensor that a call changes.
Json effects(const Json& graph) {
  Json found = Json::array();
  for (const Json& output : graph.value("outputs", Json::array())) {
    if (!output.contains("target")) continue;
    Json facts = Json::object();
    for (const char* field : {"kind", "target", "versions", "differentiable", "read"}) {
      if (output.contains(field)) facts[field] = output[field];
    }
    found.push_back(std::move(facts));
  }
  return found;
}

}  // namespace

Result<Json> graph_fields(const Json& graph) {
  for (const char* field : {"input_tree", "output_tree", "scalars"}) {
    if (!graph.is_object() || !graph.contains(field))
      return fail("bad_graph", fmt::format("the graph has no field '{}'", field));
  }
  return Json{{"input_tree", graph["input_tree"]},
              {"output_tree", graph["output_tree"]},
              {"scalars", graph["scalars"]},
              {"effects", effects(graph)}};
}

std::vector<std::string> cpu_flags(const fs::path& folder, const std::vector<std::string>& binaries) {
  const std::vector<std::string> here = all_cpu_flags();
  std::set<std::string> used;
  for (const std::string& binary : binaries) {
    auto found = cpu_features_of(folder / binary);
    if (!found) return here;
    used.merge(*found);
  }
  // The kernels ran here: what this CPU does not have, they do not need.
  std::erase_if(used, [&](const std::string& flag) { return std::ranges::find(here, flag) == here.end(); });
  return {used.begin(), used.end()};
}

Result<Json> manifest(const ShipRequest& request, const fs::path& folder, const std::vector<std::string>& binaries) {
  PLANISH_TRY(Json graph, parse_json(request.graph, "bad_graph", "graph"));
  PLANISH_TRY(const Json of_the_graph, graph_fields(graph));
  Json made{{"schema", "planish.ship/1"},
            {"mode", !request.solution.empty()  ? "solution"
                     : request.baseline.empty() ? "program"
                                                : "baseline"},
            {"planish", request.planish_version},
            {"torch", request.torch_version},
            {"default_dtype", "f32"},
            {"binaries", binaries}};
  made.update(of_the_graph);
  if (!request.modules.empty()) {
    PLANISH_TRY(made["modules"], parse_json(request.modules, "bad_request", "the live module's parts"));
  }
  if (!request.twin.empty()) {
    PLANISH_TRY(made["twin"], parse_json(request.twin, "bad_request", "the exported module's parts"));
  }
  if (!request.solution.empty()) {
    made["solution"] = sha256_hex(request.solution);
  } else if (!request.baseline.empty()) {
    made["baseline"] = request.baseline;
  } else {
    PLANISH_TRY(const program::Program parsed, program::parse(request.program));
    made["program"] = program::hash(parsed);
    if (backend::named(parsed.target).on_host && !parsed.kernels.empty())
      made["cpu_flags"] = cpu_flags(folder, binaries);
  }
  made["task"] = Json{{"name", request.task.stem().string()}};
  PLANISH_TRY(auto files, digests(folder));
  made["files"] = std::move(files);
  return made;
}

}  // namespace planish::ship
