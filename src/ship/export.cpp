#include "ship/export.h"

#include <fmt/core.h>

#include "base/file.h"
#include "base/json.h"
#include "ship/folder.h"
#include "ship/manifest.h"

namespace planish::ship {

namespace fs = std::filesystem;

Result<ShippedFacts> shipped_facts(const fs::path& folder) {
  PLANISH_TRY(const std::string text, read_file(folder / "ship.json"));
  PLANISH_TRY(const Json manifest, parse_json(text, "not_shipped", (folder / "ship.json").string()));
  if (!manifest.is_object() || !manifest.contains("task") || !manifest["task"].is_object()) {
    return fail("not_shipped", fmt::format("{}: ship.json names no task", folder.string()), "ship it again");
  }
  return ShippedFacts{manifest["task"].value("name", "task"), manifest.value("mode", "")};
}

Status only_our_code(const fs::path& folder, const Json& manifest) {
  if (manifest.value("mode", "") != "solution") return {};
  return fail("foreign_code", fmt::format("{} ships a solution: Python that a coder wrote", folder.string()),
              "it is one file already: solution.py in that folder, beside the task as reference.py; read it before you "
              "import it");
}

Status export_folder(const ExportRequest& request) {
  PLANISH_CHECK(check_folder(request.folder));
  std::error_code ignored;
  if (fs::equivalent(request.folder, request.out, ignored)) return {};
  return make_folder(request.out, "ship.json", [&](const fs::path& made) -> Status {
    PLANISH_TRY(const auto files, digests(request.folder));
    for (const auto& [path, digest] : files) {
      (void)digest;
      PLANISH_TRY(const std::string bytes, read_file(request.folder / path));
      PLANISH_CHECK(write_file(made / path, bytes));
    }
    PLANISH_TRY(const std::string manifest, read_file(request.folder / "ship.json"));
    return write_file(made / "ship.json", manifest);
  });
}

}  // namespace planish::ship
