#include "patterns/importer/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/file.h"

namespace planish::patterns {
namespace {

namespace fs = std::filesystem;

/// Files at most: what holds more is no collection of kernels.
constexpr std::size_t most_files = 200'000;

}  // namespace

Result<Walk> walk(const fs::path& folder, const std::vector<std::string_view>& endings) {
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (status.type() == fs::file_type::not_found)
    return fail("no_such_folder", fmt::format("there is no folder {}", folder.string()),
                "name the folder of a checkout, or of an installed package");
  if (failed && status.type() == fs::file_type::none)
    return std::unexpected(file_error(failed.value(), "look at", folder));
  if (status.type() != fs::file_type::directory)
    return fail("not_a_folder", fmt::format("{} is no folder", folder.string()), "name the folder that holds it");
  Walk out;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failed);
  if (failed) return std::unexpected(file_error(failed.value(), "read", folder));
  for (; at != fs::recursive_directory_iterator(); at.increment(failed)) {
    if (failed) break;
    std::error_code ignored;
    const fs::file_status one = at->symlink_status(ignored);
    const std::string base = at->path().filename().string();
    if (fs::is_directory(one) && (base.starts_with('.') || base == "__pycache__")) at.disable_recursion_pending();
    const bool wanted = std::ranges::any_of(endings, [&](std::string_view end) { return base.ends_with(end); });
    if (!wanted || !fs::is_regular_file(one)) {
      if (wanted && fs::is_symlink(one))
        out.skipped.push_back({at->path().lexically_relative(folder).generic_string(), "a link"});
      continue;
    }
    std::string name = at->path().lexically_relative(folder).generic_string();
    if (at->file_size(ignored) > most_file_bytes) {
      out.skipped.push_back({std::move(name), fmt::format("larger than {} MiB", most_file_bytes >> 20U)});
      continue;
    }
    if (out.files.size() == most_files) {
      out.skipped.push_back({std::move(name), fmt::format("more than {} files", most_files)});
      break;
    }
    out.files.push_back({at->path(), std::move(name)});
  }
  if (failed) out.skipped.push_back({folder.string(), failed.message()});
  std::ranges::sort(out.files, {}, &SourceFile::name);
  return out;
}

Result<std::string> read_text(const SourceFile& file) {
  PLANISH_TRY(std::string text, read_file(file.path));
  if (text.size() > most_file_bytes) return fail("too_large", fmt::format("{} grew while it was read", file.name));
  if (text.find('\0') != std::string::npos) return fail("binary", fmt::format("{} is no text", file.name));
  return text;
}

}  // namespace planish::patterns
