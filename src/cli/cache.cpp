#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "session/result_document.h"

namespace planish::cli {
using namespace session;

namespace {

namespace fs = std::filesystem;

struct Size {
  std::uintmax_t bytes = 0;
  std::int64_t files = 0;
};

Size size_of_folder(const fs::path& folder) {
  Size out;
  std::error_code failed;
  for (auto it = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, failed);
       !failed && it != fs::recursive_directory_iterator(); it.increment(failed)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    const auto bytes = it->file_size(ignored);
    if (ignored) continue;
    out.bytes += bytes;
    ++out.files;
  }
  return out;
}

}  // namespace

int cache_verb(CacheAction action, const Output& output) {
  const fs::path folder = cache_dir();
  Json document = {{"schema_version", ResultDocument::schema_version}, {"dir", folder.string()}};
  if (action == CacheAction::dir) {
    output.result(dump_json(document), folder.string());
    return exit_code::success;
  }
  const Size size = size_of_folder(folder);
  document["bytes"] = size.bytes;
  document["files"] = size.files;
  const double megabytes = static_cast<double>(size.bytes) / 1e6;
  if (action == CacheAction::size) {
    output.result(dump_json(document), fmt::format("{:.1f} MB in {} files", megabytes, size.files));
    return exit_code::success;
  }
  // The folder itself stays: another process may be about to write into it.
  std::error_code failed;
  for (auto it = fs::directory_iterator(folder, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    std::error_code removed;
    fs::remove_all(it->path(), removed);
    if (removed) return output.error(file_error(removed.value(), "remove", it->path()));
  }
  output.result(dump_json(document), fmt::format("removed {:.1f} MB in {} files", megabytes, size.files));
  return exit_code::success;
}

}  // namespace planish::cli
