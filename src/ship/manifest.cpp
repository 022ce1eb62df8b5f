#include "ship/manifest.h"

#include <fmt/core.h>

#include <array>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "base/hash.h"
#include "program/program.h"

namespace planish::ship {

namespace fs = std::filesystem;

Result<std::map<std::string, std::string>> digests(const fs::path& folder) {
  std::map<std::string, std::string> found;
  std::error_code error;
  auto it = fs::recursive_directory_iterator(folder, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_directory() && it->path().filename() == "__pycache__") {
      it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file() || it->path() == folder / "ship.json") continue;
    PLANISH_TRY(std::string bytes, read_file(it->path()));
    found[it->path().lexically_relative(folder).generic_string()] = sha256_hex(bytes);
  }
  if (error) return std::unexpected(file_error(error.value(), "read", folder));
  return found;
}

std::vector<std::string> cpu_flags() {
  std::vector<std::string> found;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(std::min(line.find(':') + 1, line.size())));
    constexpr std::array<std::string_view, 8> prefixes{"avx", "amx", "fma", "bmi", "sse", "f16c", "movbe", "gfni"};
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

Result<Json> manifest(const ShipRequest& request, const fs::path& folder, const std::vector<std::string>& binaries) {
  PLANISH_TRY(Json graph, parse_json(request.graph, "bad_graph", "graph"));
  for (const char* field : {"input_tree", "output_tree", "scalars"}) {
    if (!graph.is_object() || !graph.contains(field))
      return fail("bad_graph", fmt::format("the graph has no field '{}'", field));
  }
  Json made{{"schema", "planish.ship/1"},
            {"mode", request.baseline.empty() ? "program" : "baseline"},
            {"planish", request.planish_version},
            {"torch", request.torch_version},
            {"input_tree", graph["input_tree"]},
            {"output_tree", graph["output_tree"]},
            {"scalars", graph["scalars"]},
            {"default_dtype", "f32"},
            {"binaries", binaries}};
  if (!request.modules.empty()) {
    PLANISH_TRY(made["modules"], parse_json(request.modules, "bad_request", "the live module's parts"));
  }
  if (!request.baseline.empty()) {
    made["baseline"] = request.baseline;
  } else {
    PLANISH_TRY(const program::Program parsed, program::parse(request.program));
    made["program"] = program::hash(parsed);
    if (parsed.target == "cpu" && !parsed.kernels.empty()) made["cpu_flags"] = cpu_flags();
  }
  made["task"] = Json{{"name", request.task.stem().string()}};
  PLANISH_TRY(auto files, digests(folder));
  made["files"] = std::move(files);
  return made;
}

}  // namespace planish::ship
