#include "session/shipper.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "session/version.h"
#include "ship/folder.h"
#include "worker/toolbox.h"

namespace planish::session {
namespace {

namespace fs = std::filesystem;

class FolderShipper : public Shipper {
 public:
  Status ship(const ShipRequest& request) override {
    const auto tools = worker::Toolbox::resolve();
    ship::ShipRequest out;
    out.folder = request.folder;
    out.program = request.program;
    if (request.program.empty()) out.solution = request.solution;
    if (request.program.empty() && request.solution.empty()) out.baseline = request.baseline;
    for (const std::string& sha256 : request.binaries) {
      PLANISH_TRY(auto binary, find_binary(tools.cache_dir, sha256));
      out.binaries.push_back(std::move(binary));
    }
    out.blobs = request.blobs;
    out.task = request.task;
    out.graph = request.graph;
    if (fs::is_directory(request.task)) {
      PLANISH_TRY(const std::string text, read_file(request.task / "task.json"));
      PLANISH_TRY(const Json about, parse_json(text, "not_a_task", "task.json"));
      if (about.contains("modules")) out.modules = about["modules"].dump();
      if (about.contains("twin")) out.twin = about["twin"].dump();
    }
    out.package = tools.python_path / "planish";
    out.runtime = tools.rt_library;
    out.evidence = request.evidence;
    out.planish_version = version;
    out.torch_version = request.torch;
    return ship::write_folder(out);
  }
};

}  // namespace

Result<fs::path> find_binary(const fs::path& cache, const std::string& sha256) {
  for (const char* extension : {"cubin", "so"}) {
    fs::path path = cache / "binaries" / fmt::format("{}.{}", sha256, extension);
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path;
  }
  return fail("no_such_file", fmt::format("the compiled kernel {} is no longer in {}", sha256, cache.string()),
              "something emptied the cache during the run; run it again");
}

std::unique_ptr<Shipper> make_shipper() {
  return std::make_unique<FolderShipper>();
}

}  // namespace planish::session
