#include <fmt/core.h>

#include <system_error>

#include "base/file.h"
#include "ship/folder.h"
#include "ship/manifest.h"

namespace planish::ship {
namespace fs = std::filesystem;

Status check_unchanged(const fs::path& folder, const std::string& manifest) {
  const auto now = read_file(folder / "ship.json", most_bytes("ship.json"));
  Status same = check_folder(folder);
  if (same.has_value() && now.has_value() && *now == manifest) return {};
  std::string what = same.has_value() ? folder.string() + ": ship.json is another" : same.error().message;
  return fail("altered", what + ", while it was looked at", "let nothing write there, and verify it again");
}

Status copy_checked(const fs::path& folder, const std::string& manifest, const fs::path& to) {
  PLANISH_TRY(auto files, files_in(folder));
  files.push_back(folder / "ship.json");
  for (const fs::path& file : files) {
    const fs::path place = to / file.lexically_relative(folder);
    PLANISH_CHECK(make_directories(place.parent_path()));
    std::error_code error;
    fs::copy_file(file, place, error);
    if (error) return std::unexpected(file_error(error.value(), "copy", file));
  }
  if (check_unchanged(to, manifest).has_value()) return {};
  return fail("altered", fmt::format("{}: changed while it was looked at", folder.string()),
              "let nothing write there, and verify it again");
}

}  // namespace planish::ship
